"""What other processes do in the tests of the store in Redis: python redis_children.py URL WRITER SESSIONS TURNS."""

from __future__ import annotations

import asyncio
import sys

from actrone_memory import RedisStore, Turn


async def write(url: str, writer: str, sessions: int, turns: int) -> None:
    store = RedisStore(url, max_turns=10_000)

    async def fill(session: str) -> None:
        for number in range(turns):
            text = f"{writer}:{number}"
            await store.append_turn("a", session, Turn(session_id=session, user_message=text, assistant_message=text))

    await asyncio.gather(*(fill(f"s{number}") for number in range(sessions)))
    await store.close()


if __name__ == "__main__":
    url, writer, sessions, turns = sys.argv[1:]
    asyncio.run(write(url, writer, int(sessions), int(turns)))
