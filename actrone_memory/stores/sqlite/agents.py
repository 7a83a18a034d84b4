"""The rows of agents: a number for each, known by the hash of its name, and the epoch of its erasures."""

from __future__ import annotations

import hashlib
import sqlite3


def agent_hash(agent_id: str) -> bytes:
    """What an agent is found by, also when its name was forgotten."""
    return hashlib.sha256(agent_id.encode()).digest()


def agent_number(connection: sqlite3.Connection, agent_id: str) -> int:
    """The number of the agent, whose name the file learns with the first thing that it stores."""
    connection.execute("INSERT OR IGNORE INTO agents (hash) VALUES (?)", (agent_hash(agent_id),))
    ((agent,),) = connection.execute("SELECT id FROM agents WHERE hash = ?", (agent_hash(agent_id),)).fetchall()
    return int(agent)


def named_agent(connection: sqlite3.Connection, agent_id: str) -> int:
    """The number of the agent, with its name in the file."""
    agent = agent_number(connection, agent_id)
    connection.execute("UPDATE agents SET name = ? WHERE id = ? AND name IS NULL", (agent_id, agent))
    return agent


def agent_names(connection: sqlite3.Connection) -> list[str]:
    """Every agent of which something is stored."""
    found = connection.execute(
        "SELECT name FROM agents WHERE EXISTS (SELECT 1 FROM memories WHERE agent = agents.id) "
        "OR EXISTS (SELECT 1 FROM sessions WHERE agent = agents.id)"
    )
    return sorted(name for (name,) in found)


def forget_name(connection: sqlite3.Connection, agent: int) -> None:
    """Forget the name of an agent of which nothing is stored any more."""
    connection.execute(
        "UPDATE agents SET name = NULL WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM memories WHERE agent = ?1) "
        "AND NOT EXISTS (SELECT 1 FROM sessions WHERE agent = ?1)",
        (agent,),
    )


def next_epoch(connection: sqlite3.Connection, agent_id: str) -> int:
    """Refuse every write that began before; returns the number of the agent."""
    agent = agent_number(connection, agent_id)
    connection.execute("UPDATE agents SET epoch = epoch + 1 WHERE id = ?", (agent,))
    return agent
