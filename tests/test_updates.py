"""A newer memory hides the older one it ends, and stands before the one it may update; what may still hold stays."""

from __future__ import annotations

import pytest

from actrone_memory import FactExtractor, InMemoryStore, MemoryConfig, MemoryEntry, MemoryManager
from actrone_memory._updates import LONGEST_STATEMENT, update_of, why_replaced
from actrone_memory.protocols import ExtractedFact

ENDED = [
    # what is gone follows
    ("Unit tests run with Jest.", "We moved from Jest to Vitest."),
    ("Tests are written with unittest.", "Tests run with pytest, no longer with unittest"),
    ("HTTP calls go through axios.", "HTTP calls use fetch instead of axios."),
    ("Indent with tabs.", "Indent with spaces instead of tabs."),
    ("Logs are written with log4j.", "Logging was migrated from log4j to logback."),
    ("State management uses Redux.", "State management: Redux was dropped in favour of Zustand."),
    ("We use Yarn for installing packages.", "We switched from Yarn to pnpm."),
    ("Bundles are built with webpack.", "The build moved from webpack to Vite."),
    ("Queries are written with SQLAlchemy 1.4.", "We moved from SQLAlchemy 1.4 to 2.0."),
    ("E2E tests are written in Cypress.", "E2E tests moved from Cypress to Playwright."),
    ("Icons come from Font Awesome.", "Icons come from Lucide instead of Font Awesome."),
    ("Secrets are read from Vault.", "Secrets no longer come from Vault but from AWS Secrets Manager."),
    ("The user lives in Berlin.", "The user moved from Berlin to Munich."),
    ("Deploys laufen über Jenkins.", "Deploys laufen jetzt über GitHub Actions, nicht mehr über Jenkins."),
    ("Builds laufen mit Gradle 7.", "Wir sind von Gradle 7 auf Gradle 8 umgestiegen."),
    ("Tickets werden in Jira gepflegt.", "Tickets werden nicht mehr in Jira gepflegt, sondern in Linear."),
    ("Styles werden mit LESS geschrieben.", "Styles werden mit Tailwind statt LESS geschrieben."),
    ("Unit-Tests werden mit JUnit 4 geschrieben.", "Unit-Tests nutzen JUnit 5, nicht mehr JUnit 4."),
    ("单元测试使用 Jest 编写。", "单元测试改用 Vitest，不再使用 Jest。"),
    ("前端使用 Vuex 管理状态。", "状态管理从 Vuex 迁移到 Pinia。"),
    ("构建使用 Webpack。", "构建工具由 Webpack 换成 Vite。"),
    ("日期处理使用 Moment.js。", "日期处理用 dayjs 代替 Moment.js。"),
    ("Las pruebas se escriben con Mocha.", "Ya no usamos Mocha; las pruebas van con Vitest."),
    # what is gone precedes
    ("Dates are formatted with Luxon through the helper `fmt`.", "Luxon was removed; dates use Temporal."),
    ("CI runs on Travis CI.", "Travis CI was switched off, CI is GitHub Actions now."),
    ("Pipelines run on CircleCI.", "CircleCI has been retired; pipelines run on GitHub Actions."),
    ("Models are validated with Joi.", "Joi is no longer used; models are validated with zod."),
    ("Die Oberfläche wird mit AngularJS gebaut.", "AngularJS wurde durch Vue ersetzt."),
    ("Die Datenbank ist Oracle.", "Oracle ist abgelöst, die Datenbank ist jetzt PostgreSQL."),
    ("Der Code wird mit Checkstyle geprüft.", "Checkstyle wird nicht mehr verwendet, stattdessen Spotless."),
    ("日志通过 log4j 输出。", "log4j 已弃用，日志统一用 logback。"),
    ("依赖用 npm 安装。", "依赖改用 pnpm 安装，npm 已停用。"),
    ("消息队列采用 RabbitMQ。", "消息队列采用 Kafka，RabbitMQ 已被取代。"),
    ("Les tests sont écrits avec PHPUnit.", "PHPUnit a été remplacé par Pest."),
    # another number
    ("The maximum line length is 100.", "max line length is 120"),
    ("Pull requests need two approvals.", "Pull requests need three approvals."),
    ("The service runs on Python 3.9.", "The service runs on Python 3.12."),
    ("Timeouts are 30s.", "Timeouts are 60s."),
    ("Zeilen sind höchstens 100 Zeichen lang.", "Zeilen sind jetzt höchstens 120 Zeichen lang."),
    ("Merge Requests brauchen zwei Freigaben.", "Merge Requests brauchen fünf Freigaben."),
    ("每行不超过 100 个字符。", "每行不超过 120 个字符。"),
    ("代码评审需要两个人批准。", "代码评审需要三个人批准。"),
]

BOTH_HOLD = [
    # another matter, or a narrower one
    ("Axios is used for uploads in the admin tool.", "Use fetch instead of axios."),
    ("Axios is used for uploads in the admin tool.", "We moved from axios to fetch."),
    ("Moment.js is used in the reporting service.", "We moved from Moment.js to date-fns."),
    ("Unit tests of the repositories use H2.", "Integration tests no longer use H2; they run on Postgres."),
    ("Tests use H2 as the database.", "Integration tests no longer use H2."),
    ("Makefiles need tabs.", "Use spaces instead of tabs."),
    ("Unit tests run with Jest.", "Browser tests moved from Cypress to Playwright."),
    ("Backend logs go through log4j.", "Frontend logs no longer go through log4j."),
    ("Mobile builds run on Bitrise.", "Web builds moved from Bitrise to GitHub Actions."),
    ("Backups of uploads are kept in S3 for 30 days.", "Uploads moved from S3 to GCS."),
    ("React components use PascalCase.", "File names use kebab-case instead of PascalCase."),
    ("Redis caches sessions.", "Redis was replaced by Memcached in the image service."),
    ("The web client talks to the API over REST.", "Internal services moved from REST to gRPC."),
    ("Nightly jobs run on Jenkins.", "Deploys moved from Jenkins to Argo."),
    ("The user has a dentist in Berlin.", "The user moved from Berlin to Munich."),
    ("The user loves Berlin.", "The user moved from Berlin to Munich."),
    ("The user works at Google.", "The user's sister no longer works at Google."),
    ("Unit-Tests nutzen H2.", "Integrationstests laufen nicht mehr gegen H2."),
    ("Angular-Komponenten nutzen Signals.", "Formulare nutzen Reactive Forms statt Signals."),
    ("Flyway-Skripte liegen in `db/migration`.", "Testdaten werden nicht mehr über Flyway geladen."),
    ("测试使用 H2 数据库。", "集成测试不再使用 H2。"),
    ("前端使用 Vue 3。", "后台管理系统不再使用 Vue 3。"),
    ("移动端使用 axios 请求接口。", "小程序用 wx.request 代替 axios。"),
    ("订单服务使用 MySQL。", "用户服务从 MySQL 迁移到 PostgreSQL。"),
    # another name
    ("jest-axe must report zero violations.", "We moved from Jest to Vitest."),
    ("React Router handles navigation.", "We moved from React to Vue."),
    # the old memory already rejects it, is an exception, or tells the past
    ("Install through pnpm; npm lockfiles must not appear.", "We moved from npm to pnpm."),
    ("Moment is forbidden; dates use dayjs.", "We moved from Moment to dayjs."),
    ("请不要使用 Moment。", "不再使用 Moment，改用 dayjs。"),
    ("禁止使用 Moment.js。", "已从 Moment.js 迁移到 dayjs。"),
    ("The legacy admin still runs on Jest.", "We moved from Jest to Vitest."),
    ("We used Jest in 2021.", "We moved from Jest to Vitest."),
    ("Mockito ist nur für externe Systeme erlaubt.", "Fakes statt Mockito verwenden."),
    # no news: a plan, a denial, a condition, a part, something pointed at
    ("Unit tests run with Jest.", "We plan to move; until Jest was removed, both run."),
    ("Unit tests run with Jest.", "We have not moved from Jest to Vitest."),
    ("Unit tests run with Jest.", "We moved from Jest to Vitest, but the admin tool still uses Jest."),
    ("HTTP calls go through axios.", "Never use fetch instead of axios for HTTP calls."),
    ("API for loading plugins.", "This API was removed."),
    # numbers that label, measure another thing, or stand side by side
    ("Frontend coverage is at least 80 %.", "Backend coverage is at least 90 %."),
    ("List endpoints return at most 50 items.", "Admin list endpoints return at most 200 items."),
    ("Room 204 has a projector.", "Room 205 has a projector."),
    ("Port 8080 is used by the gateway.", "Port 8081 is used by the gateway."),
    ("We support Node 18.", "We support Node 20."),
    ("If the status is 404, show the page.", "If the status is 403, show the page."),
    ("404 responses are cached for a day.", "410 responses are cached for a day."),
    ("Level 1 alerts are sent within 5 minutes.", "Level 2 alerts are sent within 5 minutes."),
    ("Test failures on tier 2 platforms block releases.", "Test failures on tier 1 platforms block releases."),
    ("The user paid 20 euros.", "The user paid 30 euros."),
    ("单元测试覆盖率至少 80%。", "集成测试覆盖率至少 60%。"),
]


def _memory(content: str, *tags: str) -> MemoryEntry:
    return MemoryEntry(agent_id="a", session_id="s", content=content, content_type="injected", topic_tags=list(tags))


def _why(old: MemoryEntry, new: MemoryEntry) -> str | None:
    update = update_of(new)
    return update and why_replaced(old, update)


@pytest.mark.parametrize(("old", "new"), ENDED)
def test_a_text_ends_what_it_says_is_gone_or_measures_anew(old: str, new: str) -> None:
    assert _why(_memory(old), _memory(new))
    assert _why(_memory(old, "x", "y"), _memory(new, "y", "z"))


@pytest.mark.parametrize(("old", "new"), BOTH_HOLD)
def test_a_text_leaves_alone_what_may_still_hold(old: str, new: str) -> None:
    assert _why(_memory(old), _memory(new)) is None


@pytest.mark.parametrize(("old", "new"), ENDED)
def test_memories_without_a_common_tag_never_end_each_other(old: str, new: str) -> None:
    assert _why(_memory(old, "python"), _memory(new, "kotlin")) is None


@pytest.mark.parametrize(("old", "new"), ENDED + BOTH_HOLD)
def test_an_old_text_ends_no_newer_one_by_likeness(old: str, new: str) -> None:
    told = _why(_memory(new), _memory(old))
    assert told is None or "number" in told


def test_most_texts_may_end_nothing() -> None:
    for text in ("Unit tests run with Vitest.", "Deploys need a green pipeline.", "日志统一用 logback。", "Room 204."):
        assert update_of(_memory(text)) is None


def test_a_document_is_no_statement() -> None:
    long = "We moved from Jest to Vitest. " + "x" * LONGEST_STATEMENT
    assert update_of(_memory(long)) is None
    assert _why(_memory("Unit tests run with Jest. " + "x" * LONGEST_STATEMENT), _memory("We moved from Jest.")) is None


@pytest.mark.parametrize(
    "part", ["moved from ", "x, no longer ", "replaced A1 ", "a.b/", "the ", "从 A 改为 ", "is 1 "]
)
def test_a_hostile_text_is_read_in_a_moment(part: str) -> None:
    entry = _memory((part * LONGEST_STATEMENT)[:LONGEST_STATEMENT])
    update = update_of(entry)
    assert update is None or why_replaced(entry, update) is None


# --- stored -----------------------------------------------------------------------------------------------------------


async def _states(memory: MemoryManager) -> dict[str, str | None]:
    """Each text of agent a with the text that took its place."""
    entries = await memory.list_memories("a", include_superseded=True)
    texts = {entry.id: entry.content for entry in entries}
    return {entry.content: entry.superseded_by and texts[entry.superseded_by] for entry in entries}


async def test_what_a_new_text_ends_comes_back_from_no_read_but_the_full_list(memory: MemoryManager) -> None:
    old = await memory.inject_memory("a", "Unit tests run with Jest.", topic_tags=["testing"])
    new = await memory.inject_memory("a", "We moved from Jest to Vitest.", topic_tags=["testing"])
    assert [m.id for m in await memory.search_memories("a", "unit tests Jest")] == [new]
    assert [m.id for m in await memory.list_memories("a")] == [new]
    (hidden,) = [m for m in await memory.list_memories("a", include_superseded=True) if m.id == old]
    assert hidden.superseded_by == new
    assert hidden.metadata == {"superseded_because": "the newer memory says: moved from Jest to Vitest"}


async def test_one_text_may_end_several(memory: MemoryManager) -> None:
    for text in ("Unit tests run with Jest.", "Snapshot tests run with Jest.", "Unit tests are small."):
        await memory.inject_memory("a", text)
    await memory.inject_memory("a", "We moved from Jest to Vitest.")
    assert [m.content for m in await memory.list_memories("a")] == [
        "Unit tests are small.",
        "We moved from Jest to Vitest.",
    ]


async def test_nothing_crosses_agents(memory: MemoryManager) -> None:
    await memory.inject_memory("b", "Unit tests run with Jest.")
    await memory.inject_memory("a", "We moved from Jest to Vitest.")
    assert [m.content for m in await memory.list_memories("b")] == ["Unit tests run with Jest."]


async def test_turns_are_never_hidden(memory: MemoryManager) -> None:
    await memory.store_turn("a", "s", "Unit tests run with Jest.", "")
    await memory.drain()
    await memory.inject_memory("a", "We moved from Jest to Vitest.")
    (turn,) = await memory.list_memories("a", content_types=["turn"])
    assert "Jest" in turn.content


async def test_an_old_text_stated_again_holds_again_and_so_on_in_turn(memory: MemoryManager) -> None:
    old, new = "Unit tests run with Jest.", "We moved from Jest to Vitest."
    await memory.inject_memory("a", old)
    for last, other in ((new, old), (old, new), (new, old), (old, new)):
        await memory.inject_memory("a", last)
        assert await _states(memory) == {last: None, other: last}
        assert [m.content for m in await memory.search_memories("a", "Jest unit tests")] == [last]


async def test_of_a_row_of_numbers_the_last_one_stated_holds(memory: MemoryManager) -> None:
    texts = [f"The maximum line length is {n}." for n in (80, 100, 120, 80, 100)]
    for text in texts:
        await memory.inject_memory("a", text)
        assert [m.content for m in await memory.list_memories("a")] == [text]


async def test_what_is_named_is_replaced_whatever_the_text_says(memory: MemoryManager) -> None:
    named = await memory.inject_memory("a", "Dates are UTC.")
    await memory.inject_memory("a", "Unit tests run with Jest.")
    await memory.inject_memory("a", "We moved from Jest to Vitest.", supersedes=named)
    new = "We moved from Jest to Vitest."
    assert await _states(memory) == {"Dates are UTC.": new, "Unit tests run with Jest.": new, new: None}


async def test_an_old_text_replaced_by_name_returns_beside_its_successor(memory: MemoryManager) -> None:
    old = await memory.inject_memory("a", "Use tabs.")
    await memory.inject_memory("a", "Use spaces.", supersedes=old)
    await memory.inject_memory("a", "Use tabs.")
    assert await _states(memory) == {"Use tabs.": None, "Use spaces.": None}


async def test_nothing_is_hidden_when_newer_wins_is_off() -> None:
    memory = await MemoryManager.create(MemoryConfig(newer_wins=False))
    for text in ("Unit tests run with Jest.", "We moved from Jest to Vitest."):
        await memory.inject_memory("a", text)
    assert len(await memory.list_memories("a")) == 2
    await memory.close()


async def test_an_extracted_fact_ends_an_older_memory() -> None:
    class Extractor(FactExtractor):
        async def extract(self, text: str) -> list[ExtractedFact]:
            return [ExtractedFact(content="The user moved from Berlin to Munich.")]

    memory = await MemoryManager.create(MemoryConfig(), extractor=Extractor())
    await memory.inject_memory("a", "The user lives in Berlin.")
    await memory.store_turn("a", "s", "I moved", "")
    await memory.extract_memories("a", "s")
    assert [m.content for m in await memory.list_memories("a")] == ["The user moved from Berlin to Munich."]
    await memory.close()


async def test_a_search_is_made_only_for_a_text_that_may_end_something() -> None:
    class Counting(InMemoryStore):
        searches = 0

        async def search_page(self, *args: object, **filters: object) -> object:  # type: ignore[override]
            self.searches += 1
            return await super().search_page(*args, **filters)  # type: ignore[arg-type]

    store = Counting()
    memory = await MemoryManager.create(MemoryConfig(), l1=store, l2=store)
    await memory.inject_memory("a", "Unit tests run with Jest.")
    assert store.searches == 0
    await memory.inject_memory("a", "We moved from Jest to Vitest.")
    assert store.searches == 1
    await memory.close()


async def test_what_is_ended_is_found_among_thousands(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Bundles are built with webpack.")
    for i in range(1000):
        await memory.inject_memory("a", f"The build of module x{i} is owned by team y{i % 7}.")
    await memory.inject_memory("a", "The build moved from webpack to Vite.")
    assert (await _states(memory))["Bundles are built with webpack."] == "The build moved from webpack to Vite."
