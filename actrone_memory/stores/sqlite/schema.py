"""The tables of the file. Who changes them raises the version and brings older files along."""

from __future__ import annotations

from actrone_memory.stores.sqlite.file import Schema

SCHEMA = Schema(
    version=1,
    statements=(
        # What holds for the whole file; one row.
        """CREATE TABLE file (
            embedder TEXT,
            embedder_dimensions INTEGER,
            dimensions INTEGER,
            first_sequence INTEGER NOT NULL DEFAULT 0,
            reindexes INTEGER NOT NULL DEFAULT 0,
            new_embedder TEXT,
            new_dimensions INTEGER
        )""",
        "INSERT INTO file (first_sequence) VALUES (0)",
        # An agent that was erased leaves the hash of its name, so that late writes are still refused.
        """CREATE TABLE agents (
            id INTEGER PRIMARY KEY,
            hash BLOB NOT NULL UNIQUE,
            name TEXT,
            epoch INTEGER NOT NULL DEFAULT 0,
            changes INTEGER NOT NULL DEFAULT 0,
            deletions INTEGER NOT NULL DEFAULT 0
        )""",
        """CREATE TABLE sessions (
            id INTEGER PRIMARY KEY,
            agent INTEGER NOT NULL,
            name TEXT NOT NULL,
            next_sequence INTEGER NOT NULL,
            archived INTEGER NOT NULL DEFAULT -1,
            erased INTEGER NOT NULL DEFAULT -1,
            expired INTEGER NOT NULL DEFAULT -1,
            hold INTEGER NOT NULL DEFAULT 0,
            created_at TEXT,
            last_active TEXT,
            written_at REAL NOT NULL DEFAULT 0,
            UNIQUE (agent, name)
        )""",
        "CREATE INDEX sessions_by_age ON sessions (written_at)",
        # A record that was trimmed keeps its id, without its document, so that a late retry is recognised.
        """CREATE TABLE records (
            session INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            name TEXT NOT NULL,
            opens INTEGER NOT NULL,
            document TEXT,
            UNIQUE (session, sequence),
            UNIQUE (session, name)
        )""",
        "CREATE INDEX turns ON records (session, sequence) WHERE opens AND document IS NOT NULL",
        """CREATE TABLE summary_locks (
            agent INTEGER NOT NULL,
            session TEXT NOT NULL,
            until REAL NOT NULL,
            PRIMARY KEY (agent, session)
        )""",
        # ``changed`` numbers the writes of an agent: what another process wrote since is what lies above. The terms of
        # the text are kept because to find them takes longer than all else that an index does when it is read.
        """CREATE TABLE memories (
            id TEXT NOT NULL UNIQUE,
            agent INTEGER NOT NULL,
            changed INTEGER NOT NULL,
            is_turn INTEGER NOT NULL,
            session TEXT NOT NULL,
            is_superseded INTEGER NOT NULL,
            document TEXT NOT NULL,
            vector BLOB,
            terms TEXT NOT NULL,
            terms_recipe INTEGER NOT NULL,
            UNIQUE (agent, changed)
        )""",
        "CREATE INDEX archived_turns ON memories (agent, session) WHERE is_turn",
        # Vectors of another embedder, until every entry has one.
        "CREATE TABLE new_vectors (id TEXT NOT NULL UNIQUE, changed INTEGER NOT NULL, vector BLOB)",
        "CREATE TRIGGER deleted AFTER DELETE ON memories BEGIN DELETE FROM new_vectors WHERE id = OLD.id; END",
    ),
)
