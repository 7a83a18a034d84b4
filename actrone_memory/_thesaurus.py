"""Words of software development that often stand for each other: a task says "login", the rule "auth". Pure.

Written by hand for this project, English only, one group a line. A word may stand in several groups; what stands in a
group with it counts as a weak match of it.
"""

from __future__ import annotations

from functools import cache

from actrone_memory._lexical import fold, stem

RELATED_WEIGHT = 0.15
"""Share of a match that a related word counts: it orders what other words admit, and admits little by itself."""

_GROUPS = """
test tests testing spec specs suite unittest
mock stub fake double spy
fixture factory seed sample builder
coverage covered
assert assertion expect expectation
flaky intermittent unstable retry
e2e browser playwright cypress selenium acceptance integration
dependency dependencies package library module third-party vendor lockfile requirement requirements
install add upgrade bump update
npm yarn pnpm pip poetry cargo bundler gem maven gradle composer
auth authentication login signin logon session password credential
permission authorization role access policy privilege
token secret key credential apikey password vault
user account member customer profile visitor
date time timestamp timezone day clock calendar datetime utc zone
money price amount currency cents decimal payment billing invoice
format formatter formatting style prettier lint linter indent
lint linter eslint ruff flake8 rubocop clippy checkstyle warning
typing types type annotation typed mypy typescript hint
name naming rename called casing prefix suffix identifier
file files path directory folder location
folder directory dir location layout structure place put lives
database db sql table schema postgres mysql sqlite
query select sql orm lookup fetch
migration schema alter column table
column field attribute property
index slow performance speed
transaction commit rollback atomic
delete remove drop destroy erase purge
create add new make introduce write build
change modify edit update alter
rename move relocate
fetch get load retrieve read download
save store persist write keep
cache caching memoize redis ttl
queue job worker background async task celery sidekiq
schedule cron periodic nightly timer
event message publish subscribe bus kafka broker webhook
api endpoint route handler controller rest resource
http request response status header
url link href route
client frontend ui browser web
server backend service
component widget view element
page screen view
button form input dialog modal
css style styling theme color colour tailwind
icon image asset picture svg logo
text copy string label message wording translation
translation i18n l10n locale language localization internationalization translate
accessibility a11y aria screenreader contrast
error exception failure fault throw raise panic crash
log logging logger trace print debug
metric metrics monitoring telemetry observability dashboard alert
config configuration setting settings option env environment variable
flag toggle feature rollout experiment
env environment variable dotenv
secret credential leak sensitive private pii
privacy personal pii gdpr sensitive
security vulnerability injection xss csrf sanitize escape
encrypt encryption hash crypto tls
validate validation validator check verify sanitize schema
parse parser parsing deserialize decode
serialize serializer json payload dto
docs documentation readme guide comment docstring changelog
changelog release notes news history
comment docstring annotation todo
commit message git history squash
branch git merge rebase main trunk
pr pull request review reviewer merge
review approve reviewer approval
ci pipeline workflow build actions jenkins
deploy deployment release rollout ship publish production
release version tag semver publish
docker container image compose kubernetes k8s pod
infrastructure terraform cloud provision aws
script command cli tool make task
terminal shell bash console cli
build compile bundle bundler webpack vite
generate generated codegen scaffold
state store redux context
hook hooks callback
async await promise concurrent coroutine future
thread lock mutex race concurrency parallel
timeout deadline cancel cancellation retry backoff
memory leak allocation heap
loop iterate iteration map
list array collection slice
page pagination paginate cursor offset limit
search find filter lookup
sort order ordering
upload file attachment storage s3 blob bucket
email mail notification notify message
notification push alert toast
number integer float decimal rounding precision
null nil none undefined optional missing nullable
constant enum magic literal
function method helper utility util
helper util utility shared common
class object struct model entity
model entity record
interface contract protocol trait abstract
import imports export barrel module require
circular cycle dependency
dead unused stale deprecated legacy obsolete
refactor cleanup tidy restructure
duplicate copy repeated dry
debug breakpoint inspect troubleshoot
bug defect issue fix regression
issue ticket jira story
benchmark profile performance slow fast optimize latency
license copyright header
animation transition motion
mobile android ios phone device
offline sync network connectivity
train training epoch fit learn
dataset data corpus samples split
gpu cuda device accelerator
random seed reproducible deterministic
notebook jupyter experiment
checkpoint weights artifact
crash panic abort unwrap
pointer ownership memory raii smart
header include
gateway proxy router edge upstream
limit quota throttle rate
monorepo workspace package workspaces
"""


def related(term: str) -> frozenset[str]:
    """Terms that stand in a group with ``term``, without itself."""
    return _groups().get(term, frozenset())


@cache
def _groups() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in _GROUPS.split("\n"):
        terms = {stem(fold(word)) for word in line.replace("-", " ").split()}
        for term in terms:
            found.setdefault(term, set()).update(terms - {term})
    return {term: frozenset(others) for term, others in found.items()}
