"""The hot tier in Redis or Valkey, for many processes (extra ``redis``)."""

from actrone_memory.stores.redis.store import RedisStore

__all__ = ["RedisStore"]
