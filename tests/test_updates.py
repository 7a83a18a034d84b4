"""A newer memory hides the older one it ends, and stands before the one it may update; what may still hold stays."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from actrone_memory import FactExtractor, InMemoryStore, MemoryConfig, MemoryEntry, MemoryManager
from actrone_memory._statements import LONGEST_STATEMENT
from actrone_memory._updates import update_of, why_replaced
from actrone_memory.protocols import ExtractedFact, Page

ENDED = [
    # what is gone follows
    ("Unit tests run with Jest.", "We moved from Jest to Vitest."),
    ("Tests are written with unittest.", "Tests run with pytest, no longer with unittest"),
    ("HTTP calls go through axios.", "HTTP calls use fetch instead of axios."),
    ("Indent with tabs.", "Indent with spaces instead of tabs."),
    ("Logs are written with log4j.", "Logging was migrated from log4j to logback."),
    ("State management uses Redux.", "State management: Redux was dropped in favour of Zustand."),
    ("We use Yarn for installing packages.", "We switched from Yarn to pnpm."),
    ("Builds run with webpack.", "The build moved from webpack to Vite."),
    ("Queries are written with SQLAlchemy 1.4.", "We moved from SQLAlchemy 1.4 to 2.0."),
    ("E2E tests are written in Cypress.", "E2E tests moved from Cypress to Playwright."),
    ("Icons come from Font Awesome.", "Icons come from Lucide instead of Font Awesome."),
    ("Secrets are read from Vault.", "Secrets no longer come from Vault but from AWS Secrets Manager."),
    ("The user lives in Berlin.", "The user moved from Berlin to Munich."),
    ("Deploys laufen über Jenkins.", "Deploys laufen jetzt über GitHub Actions, nicht mehr über Jenkins."),
    ("Builds laufen mit Gradle 7.", "Wir sind von Gradle 7 auf Gradle 8 umgestiegen."),
    ("Tickets werden in Jira gepflegt.", "Tickets werden nicht mehr in Jira gepflegt, sondern in Linear."),
    ("Styles werden mit LESS geschrieben.", "Styles werden mit Tailwind statt LESS geschrieben."),
    ("Prüfungen laufen mit JUnit 4.", "Prüfungen nutzen JUnit 5, nicht mehr JUnit 4."),
    ("单元测试使用 Jest 编写。", "单元测试改用 Vitest，不再使用 Jest。"),
    ("前端使用 Vuex 管理状态。", "状态管理从 Vuex 迁移到 Pinia。"),
    ("构建使用 Webpack。", "构建工具由 Webpack 换成 Vite。"),
    ("日期处理使用 Moment.js。", "日期处理用 dayjs 代替 Moment.js。"),
    ("Las pruebas se escriben con Mocha.", "Ya no usamos Mocha; las pruebas van con Vitest."),
    # what is gone precedes
    ("Calendar entries use Luxon and the helper `fmt`.", "Luxon was removed; calendar entries use Temporal."),
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
    ("Änderungen brauchen zwei Gutachten.", "Änderungen brauchen fünf Gutachten."),
    ("每行不超过 100 个字符。", "每行不超过 120 个字符。"),
    ("代码评审需要两个人批准。", "代码评审需要三个人批准。"),
]

BOTH_HOLD = [
    # limited by a word that says little elsewhere
    ("Alerts use Slack.", "We moved from Slack to Teams for calls."),
    ("Queue jobs use Redis.", "We moved from Redis to Postgres for reads."),
    ("Unit tests use Jest.", "We moved from Jest to Vitest in the tools repo."),
    ("Unit tests use Jest.", "Jest was replaced by Vitest in the user project."),
    ("Alerts use Slack.", "We moved from Slack to Teams for new users."),
    ("Alerts use Slack.", "We moved from Slack to Teams at work."),
    # numbers that name
    ("The backup is on disk 1.", "The backup is on disk 2."),
    ("A replica is on node 2.", "A replica is on node 3."),
    ("Every page needs section 2.", "Every page needs section 3."),
    ("Always use rule 12 of the guide.", "Always use rule 14 of the guide."),
    ("Allow port 443.", "Allow port 80."),
    ("There is a meeting at 9.", "There is a meeting at 14."),
    ("Die Sicherung ist auf Platte 1.", "Die Sicherung ist auf Platte 2."),
    # another matter, or a narrower one
    ("Axios is used for uploads in the admin tool.", "Use fetch instead of axios."),
    ("Axios is used for uploads in the admin tool.", "We moved from axios to fetch."),
    ("Moment.js is used in the reporting service.", "We moved from Moment.js to Luxon."),
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
    ("Ansichten nutzen Signals.", "Formulare nutzen Observables statt Signals."),
    ("Flyway legt die Tabellen an.", "Testdaten werden nicht mehr über Flyway geladen."),
    ("测试使用 H2 数据库。", "集成测试不再使用 H2。"),
    ("前端使用 Vue 3。", "后台管理系统不再使用 Vue 3。"),
    ("移动端使用 axios 请求接口。", "小程序用 wx.request 代替 axios。"),
    ("订单服务使用 MySQL。", "用户服务从 MySQL 迁移到 PostgreSQL。"),
    # another name
    ("jest-junit writes the report of the pipeline.", "We moved from Jest to Vitest."),
    ("React Router handles navigation.", "We moved from React to Vue."),
    # the old memory already rejects it, is an exception, or tells the past
    ("The docker image has pnpm; npm is not installed there.", "We moved from npm to pnpm."),
    ("Moment is forbidden; dates use dayjs.", "We moved from Moment to dayjs."),
    ("请不要使用 Moment。", "不再使用 Moment，改用 dayjs。"),
    ("禁止使用 Moment.js。", "已从 Moment.js 迁移到 dayjs。"),
    ("The legacy admin still runs on Jest.", "We moved from Jest to Vitest."),
    ("We used Jest in 2021.", "We moved from Jest to Vitest."),
    ("Jasmine ist nur im Editor zulässig.", "Vitest statt Jasmine verwenden."),
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

SIDE_BY_SIDE = [
    [
        "Use pytest fixtures instead of setUp methods.",
        "Tests in `legacy/` use unittest.",
        "Fixtures live in conftest.py.",
        "Use tmp_path instead of tempfile in tests.",
        "Mock HTTP with respx, not with requests-mock.",
        "Integration tests are marked `slow`.",
        "Timeouts in tests are at most 5 seconds.",
        "Timeouts in production are at most 30 seconds.",
        "Prefer dataclasses over dicts.",
        "Public APIs use pydantic models instead of dataclasses.",
        "Use pathlib instead of os.path.",
        "Scripts in `bin/` use os.path for speed.",
        "Logging uses structlog; print is no longer allowed.",
        "CLI output uses print through click.echo.",
        "Retries: at most 3 attempts for reads.",
        "Retries: at most 5 attempts for writes.",
    ],
    [
        "Services are deployed with Helm.",
        "Staging is no longer deployed with Helm but with Kustomize.",
        "Terraform modules live in infra/.",
        "We moved state from S3 to Terraform Cloud.",
        "Artifacts are stored in S3.",
        "Docker images are pushed to ECR instead of Docker Hub.",
        "Public base images come from Docker Hub.",
        "Jenkins was replaced by GitHub Actions for pull requests.",
        "Nightly performance runs happen on Jenkins.",
        "Alerts page the on-call via PagerDuty.",
        "Low alerts go to Slack instead of PagerDuty.",
        "Node 18 is used for the CLI.",
        "Node 20 is used for the server.",
        "Redis holds sessions.",
        "Rate limits no longer live in Redis.",
    ],
    [
        "Verwende Kotlin statt Java für neue Module.",
        "Die Altmodule sind in Java geschrieben.",
        "Der Importdienst nutzt Java 17.",
        "Datumsfelder werden mit Instant statt Date gespeichert.",
        "Die Druckausgabe verwendet Date im Format dd.MM.yyyy.",
        "Logs gehen nicht mehr in Dateien, sondern nach Loki.",
        "Audit-Einträge liegen in Dateien mit Signatur.",
        "Die Suche läuft nicht mehr über Solr.",
        "Solr indexiert die Archivakten.",
        "Sitzungen laufen nach 30 Minuten ab.",
        "Passwort-Links laufen nach 60 Minuten ab.",
        "Listen zeigen höchstens 50 Einträge.",
        "Exporte haben höchstens 5000 Zeilen.",
        "Feature-Branches werden per Squash gemergt.",
        "Release-Branches werden nicht mehr per Squash gemergt.",
    ],
    [
        "接口返回统一使用 Result 包装。",
        "文件下载接口不使用 Result 包装。",
        "前端请求用 axios 封装，不要直接用 fetch。",
        "SSR 页面用 fetch 代替 axios。",
        "数据库主键使用雪花算法。",
        "日志表不再使用雪花算法，改用自增主键。",
        "缓存使用 Redis，过期时间为 30 分钟。",
        "验证码缓存过期时间为 5 分钟。",
        "单元测试使用 JUnit 5。",
        "集成测试使用 Testcontainers，而不是 H2。",
        "本地开发使用 H2。",
        "分页每页最多 50 条。",
        "导出最多 5000 条。",
        "后台页面使用 Element Plus。",
        "官网页面从 Element Plus 迁移到自研组件。",
        "提交信息使用英文。",
        "注释使用中文而不是英文。",
    ],
    [
        "The user lives in Berlin.",
        "The user was born in Hamburg.",
        "The user moved from Hamburg to Berlin in 2019.",
        "The user's brother lives in Hamburg.",
        "The user flies from Hamburg every month.",
        "The user switched from coffee to tea.",
        "The user's wife drinks coffee.",
        "The office serves coffee.",
        "The user has 2 cats.",
        "The user's sister has 3 cats.",
        "The user no longer works at Siemens.",
        "The user's father worked at Siemens.",
        "The user owns Siemens shares.",
        "The user likes Siemens kitchen devices.",
        "The user's alarm is at 7.",
        "The user's meeting is at 9.",
    ],
    [
        "Components are function components; class components were removed.",
        "Error boundaries are class components.",
        "Use CSS modules instead of styled-components.",
        "The email package uses styled-components.",
        "We migrated from Enzyme to Testing Library.",
        "Accessibility tests use jest-axe.",
        "Storybook replaced Styleguidist.",
        "Stories live next to components.",
        "ESLint rules extend `@acme/eslint-config`.",
        "Prettier replaced ESLint for formatting.",
        "ESLint checks import order.",
        "Yarn 3 is required.",
        "The docs site is built with Yarn 1.",
        "API mocks use MSW.",
        "We stopped using MSW in Storybook.",
        "React Query caches server data.",
        "Redux is gone from the checkout.",
        "Redux holds the editor state.",
    ],
]
"""Rules of one project each, all in force: whatever the order in which they are told, none ends another."""


def _memory(content: str, *tags: str) -> MemoryEntry:
    return MemoryEntry(agent_id="a", session_id="s", content=content, content_type="injected", topic_tags=list(tags))


def _why(old: MemoryEntry, new: MemoryEntry) -> str | None:
    update = update_of(new)
    return update and why_replaced(old, update)


@pytest.mark.parametrize(("old", "new"), ENDED)
def test_a_text_ends_what_it_says_is_gone_or_measures_anew(old: str, new: str) -> None:
    assert _why(_memory(old), _memory(new))
    assert _why(_memory(old, "x", "y"), _memory(new, "y"))
    assert _why(_memory(old, "y"), _memory(new, "y", "z"))
    assert _why(_memory(old, "x", "y"), _memory(new, "y", "z")) is None, "each has a matter of its own"


@pytest.mark.parametrize(("old", "new"), BOTH_HOLD)
def test_a_text_leaves_alone_what_may_still_hold(old: str, new: str) -> None:
    assert _why(_memory(old), _memory(new)) is None


@pytest.mark.parametrize("texts", SIDE_BY_SIDE, ids=lambda texts: texts[0])
def test_rules_in_force_together_leave_each_other_alone(texts: list[str]) -> None:
    ended = [(old, new) for old, new in itertools.permutations(texts, 2) if _why(_memory(old), _memory(new))]
    assert ended == []


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
    assert store.searches > 0
    await memory.close()


async def test_what_is_ended_is_found_among_a_thousand(memory: MemoryManager) -> None:
    await memory.inject_memory("a", "Builds run with webpack.")
    for i in range(1000):
        await memory.inject_memory("a", f"The build of module x{i} is owned by team y{i % 7}.")
    await memory.inject_memory("a", "The build moved from webpack to Vite.")
    assert (await _states(memory))["Builds run with webpack."] == "The build moved from webpack to Vite."


# --- deleting, and what happens meanwhile -----------------------------------------------------------------------------

OLD_RULE, NEWS = "Unit tests run with Jest.", "We moved from Jest to Vitest."


async def test_what_a_memory_hid_holds_again_when_that_memory_is_deleted() -> None:
    memory = await MemoryManager.create(MemoryConfig(embedding_provider="static"))
    old = await memory.inject_memory("a", OLD_RULE)
    news = await memory.inject_memory("a", NEWS)
    await memory.inject_memory("a", NEWS, importance=0.9)  # stated again, it still knows what it hides
    assert [entry.id for entry in await memory.list_memories("a")] == [news]
    await memory.delete_memory("a", news)
    (entry,) = await memory.list_memories("a", include_superseded=True)
    assert (entry.id, entry.superseded_by, entry.metadata) == (old, None, {})
    assert [found.id for found in await memory.search_memories("a", "how do unit tests run?")] == [old]
    await memory.close()


async def test_what_was_replaced_by_name_stays_replaced_when_its_successor_is_deleted() -> None:
    memory = await MemoryManager.create(MemoryConfig())
    old = await memory.inject_memory("a", "Fridays are for refactoring.")
    news = await memory.inject_memory("a", "Mondays are for planning.", supersedes=old)
    await memory.delete_memory("a", news)
    assert await memory.list_memories("a") == []
    await memory.close()


class Pausing(InMemoryStore):
    """Lets something happen between the search for what is replaced and the write."""

    def __init__(self) -> None:
        super().__init__()
        self.searched, self.go_on = asyncio.Event(), asyncio.Event()

    async def search_page(self, *args: Any, **kwargs: Any) -> Page:
        page = await super().search_page(*args, **kwargs)
        self.searched.set()
        await self.go_on.wait()
        return page


@pytest.mark.parametrize("meanwhile", ["delete", "refresh"])
async def test_what_happens_to_the_old_memory_while_the_news_is_written_is_not_undone(meanwhile: str) -> None:
    store = Pausing()
    memory = await MemoryManager.create(MemoryConfig(), l1=store, l2=store)
    old = await memory.inject_memory("a", OLD_RULE)
    writing = asyncio.create_task(memory.inject_memory("a", NEWS))
    await store.searched.wait()
    if meanwhile == "delete":
        await memory.delete_memory("a", old)
    else:
        await memory.inject_memory("a", OLD_RULE, importance=1.0, topic_tags=["kept"])
    store.go_on.set()
    news = await writing
    entries = {entry.id: entry for entry in await memory.list_memories("a", include_superseded=True)}
    assert entries[news].superseded_by is None
    if meanwhile == "delete":
        assert set(entries) == {news}
    else:
        assert (entries[old].importance_score, entries[old].topic_tags) == (1.0, ["kept"])
        assert entries[old].superseded_by is None, "it was stated after the news"
    await memory.close()
