"""A small HTTP server that speaks Qdrant's REST dialect on this machine, and misbehaves on demand.

The searching is done by Qdrant's own engine (qdrant-edge-py), where it is installed; the HTTP around it is ours. It is
no Qdrant server: what a real one does beside the engine is not tested with it.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

try:
    import qdrant_edge
except ImportError:
    edge: Any = None
else:
    edge = qdrant_edge

Json = dict[str, Any]
DONE: Json = {"operation_id": 0, "status": "completed"}
Fault = Callable[["Handler"], bool]
"""Called before a request is answered; True when that was the answer."""


class Collection:
    """One collection of the engine."""

    def __init__(self, folder: Path, config: Json) -> None:
        folder.mkdir()
        self.config, self.indexes = config, dict[str, Any]()
        self.shard = edge.EdgeShard.create(
            str(folder),
            edge.EdgeConfig(
                vectors={
                    name: edge.EdgeVectorParams(size=params["size"], distance=edge.Distance.Dot)
                    for name, params in config["vectors"].items()
                },
                sparse_vectors={
                    name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for name in config["sparse_vectors"]
                },
            ),
        )

    def query(self, request: Json) -> Json:
        return {"points": [_point(point) for point in self.shard.query(_query(request))]}

    def retrieve(self, request: Json) -> list[Json]:
        found = self.shard.retrieve(
            request["ids"], with_payload=request["with_payload"], with_vector=request["with_vector"]
        )
        return [_point(point) for point in found]

    def scroll(self, request: Json) -> Json:
        points, offset = self.shard.scroll(
            edge.ScrollRequest(
                offset=request.get("offset"),
                limit=request["limit"],
                filter=_filter(request.get("filter")),
                with_payload=request["with_payload"],
                with_vector=request["with_vector"],
            )
        )
        return {"points": [_point(point) for point in points], "next_page_offset": offset and str(offset)}

    def count(self, request: Json) -> Json:
        return {"count": self.shard.count(edge.CountRequest(exact=True, filter=_filter(request.get("filter"))))}

    def add_vector(self, name: str, params: Json) -> Json:
        size, distance = params["dense"]["size"], edge.Distance.Dot
        self.shard.update(edge.UpdateOperation.create_dense_vector(name, size, distance))
        self.config["vectors"][name] = {"size": size, "distance": "Dot"}
        return DONE

    def drop_vector(self, name: str) -> Json:
        if name not in self.config["vectors"]:
            raise ValueError(f"Wrong input: Not existing vector name error: {name}")
        self.shard.update(edge.UpdateOperation.delete_vector_name(name))
        del self.config["vectors"][name]
        return DONE

    def update_vectors(self, request: Json) -> Json:
        points = [
            edge.PointVectors(point["id"], {name: _vector(vector) for name, vector in point["vector"].items()})
            for point in request["points"]
        ]
        self.shard.update(edge.UpdateOperation.update_vectors(points, _filter(request.get("update_filter"))))
        return DONE

    def set_payload(self, request: Json) -> Json:
        operation = edge.UpdateOperation.set_payload_by_filter
        self.shard.update(operation(_filter(request["filter"]), request["payload"]))
        return DONE

    def overwrite_payload(self, request: Json) -> Json:
        operation = edge.UpdateOperation.overwrite_payload_by_filter
        self.shard.update(operation(_filter(request["filter"]), request["payload"]))
        return DONE

    def upsert(self, request: Json) -> Json:
        points = [
            edge.Point(
                id=point["id"],
                vector={name: _vector(vector) for name, vector in point["vector"].items()},
                payload=point["payload"],
            )
            for point in request["points"]
        ]
        mode = edge.UpdateMode.InsertOnly if request.get("update_mode") == "insert_only" else edge.UpdateMode.Upsert
        self.shard.update(edge.UpdateOperation.upsert_points(points, update_mode=mode))
        return DONE

    def facet(self, request: Json) -> Json:
        found = self.shard.facet(edge.FacetRequest(request["key"], request["limit"], request["exact"]))
        return {"hits": [{"value": hit.value, "count": hit.count} for hit in found]}

    def index(self, field: str, schema: Any) -> Json:
        kinds = {"keyword": edge.PayloadSchemaType.Keyword, "integer": edge.PayloadSchemaType.Integer}
        kind = kinds[schema] if isinstance(schema, str) else edge.KeywordIndexParams(is_tenant=schema["is_tenant"])
        self.shard.update(edge.UpdateOperation.create_field_index(field, kind))
        self.indexes[field] = {"data_type": schema if isinstance(schema, str) else schema["type"], "points": 0}
        return DONE

    def delete(self, request: Json) -> Json:
        self.shard.update(edge.UpdateOperation.delete_points_by_filter(_filter(request["filter"])))
        return DONE

    def info(self) -> Json:
        return {
            "status": "green",
            "optimizer_status": "ok",
            "segments_count": 1,
            "config": {
                "params": {key: self.config[key] for key in ("vectors", "sparse_vectors")},
                "hnsw_config": {"m": 0, "ef_construct": 100, "full_scan_threshold": 10000},
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "flush_interval_sec": 5,
                },
            },
            "payload_schema": self.indexes,
        }


class Server:
    """The server; ``url`` is where it is, ``requests`` what it was asked."""

    def __init__(self, port: int = 0, *, version: str = "1.19.0", api_key: str | None = None) -> None:
        if edge is None:
            pytest.skip("qdrant-edge-py has no wheel here")
        self.version, self.api_key = version, api_key
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.collections: dict[str, Collection] = {}
        self.guard = threading.Lock()
        self._folder = tempfile.TemporaryDirectory()
        self._http: ThreadingHTTPServer | None = None
        self.port = port
        self.start()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Answer, with the data of before."""
        self._http = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._http.daemon_threads = True
        self._http.memory = self  # type: ignore[attr-defined]
        self.port = self._http.server_address[1]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def folder(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}-{time.time_ns()}"

    def stop(self) -> None:
        """Stop answering; the data stays."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._thread.join()
            self._http = None

    def close(self) -> None:
        self.stop()
        for collection in self.collections.values():
            collection.shard.close()
        self._folder.cleanup()

    def dump(self) -> str:
        """Every point as it is stored."""
        pages = [
            collection.scroll({"limit": 100_000, "with_payload": True, "with_vector": False})
            for collection in self.collections.values()
        ]
        return json.dumps(pages, ensure_ascii=False)


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_GET(self) -> None:
        self._answer()

    do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _answer(self) -> None:
        self.body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        server = self.memory
        path = self.path.split("?")[0]
        server.requests.append(f"{self.command} {path}")
        if server.api_key is not None and self.headers.get("api-key") != server.api_key:
            self.send(401, {"status": {"error": "Must provide an API key or an Authorization bearer token"}})
            return
        if server.faults and server.faults[0](self):
            return
        self.perform()

    @property
    def memory(self) -> Server:
        return self.server.memory  # type: ignore[attr-defined, no-any-return]

    def perform(self, *, reply: bool = True) -> None:
        """Do what was asked, and say so unless the reply is to be lost."""
        try:
            status, result = self._result()
        except Exception as error:  # the engine's
            status, result = 400, {"status": {"error": str(error)}}
        if reply:
            self.send(status, {"result": result, "status": "ok", "time": 0.0} if status == 200 else result)

    def _result(self) -> tuple[int, Any]:
        server, parts = self.memory, self.path.split("?")[0].strip("/").split("/")
        if parts == [""]:
            return -1, {"title": "qdrant", "version": server.version}
        name, rest = parts[1], "/".join(parts[2:])
        with server.guard:  # the engine does one thing at a time
            if self.command == "PUT" and not rest:
                if name in server.collections:
                    return 409, {"status": {"error": f"Wrong input: Collection `{name}` already exists!"}}
                server.collections[name] = Collection(server.folder(name), self.body)
                return 200, True
            collection = server.collections.get(name)
            if collection is None:
                return 404, {"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}}
            return 200, self._routes(collection, rest)[self.command, rest]()

    def _routes(self, collection: Collection, rest: str) -> dict[tuple[str, str], Callable[[], Any]]:
        body, vector = self.body, rest.removeprefix("vectors/")
        return {
            ("GET", ""): collection.info,
            ("PUT", "index"): lambda: collection.index(body["field_name"], body["field_schema"]),
            ("PUT", f"vectors/{vector}"): lambda: collection.add_vector(vector, body),
            ("DELETE", f"vectors/{vector}"): lambda: collection.drop_vector(vector),
            ("POST", "facet"): lambda: collection.facet(body),
            ("POST", "points"): lambda: collection.retrieve(body),
            ("PUT", "points"): lambda: collection.upsert(body),
            ("PUT", "points/vectors"): lambda: collection.update_vectors(body),
            ("POST", "points/payload"): lambda: collection.set_payload(body),
            ("PUT", "points/payload"): lambda: collection.overwrite_payload(body),
            ("POST", "points/scroll"): lambda: collection.scroll(body),
            ("POST", "points/count"): lambda: collection.count(body),
            ("POST", "points/delete"): lambda: collection.delete(body),
            ("POST", "points/query/batch"): lambda: [collection.query(request) for request in body["searches"]],
        }

    def send(self, status: int, value: Any, *, cut_after: int | None = None) -> None:
        body = json.dumps(value).encode()
        self.send_response(200 if status == -1 else status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if cut_after is None else body[:cut_after])
        if cut_after is not None:
            self.hang_up()

    def hang_up(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(2)


@contextmanager
def running(**settings: Any) -> Iterator[Server]:
    server = Server(**settings)
    try:
        yield server
    finally:
        server.close()


def _filter(filter_: Mapping[str, Any] | None) -> Any:
    if filter_ is None:
        return None
    kinds = ("must", "should", "must_not")
    return edge.Filter(
        **{kind: [_condition(one) for one in filter_[kind]] for kind in kinds if filter_.get(kind) is not None}
    )


def _condition(condition: Mapping[str, Any]) -> Any:
    if "has_vector" in condition:
        return edge.HasVectorCondition(condition["has_vector"])
    if "has_id" in condition:
        return edge.HasIdCondition(set(condition["has_id"]))
    if "key" not in condition:
        return _filter(condition)
    if condition.get("range"):
        bounds = {name: float(value) for name, value in condition["range"].items() if value is not None}
        return edge.FieldCondition(key=condition["key"], range=edge.RangeFloat(**bounds))
    match = condition["match"]
    matches = edge.MatchAny(match["any"]) if "any" in match else edge.MatchValue(match["value"])
    return edge.FieldCondition(key=condition["key"], match=matches)


def _query(request: Json) -> Any:
    prefetch, query, params = request.get("prefetch"), request.get("query"), request.get("params")
    idf = (params or {}).get("idf")
    return edge.QueryRequest(
        limit=request["limit"],
        query=None if query is None else edge.Query.Nearest(_vector(query), using=request["using"]),
        prefetches=[edge.Prefetch(limit=prefetch["limit"], filter=_filter(prefetch["filter"]))] if prefetch else None,
        with_vector=request.get("with_vector") or False,
        with_payload=request.get("with_payload") or False,
        filter=_filter(request.get("filter")),
        params=edge.SearchParams(idf=edge.IdfParams(corpus=_filter(idf["corpus"]))) if idf else None,
    )


def _vector(vector: Any) -> Any:
    if isinstance(vector, dict) and "nearest" in vector:
        return _vector(vector["nearest"])
    if isinstance(vector, dict):
        return edge.SparseVector(indices=vector["indices"], values=vector["values"])
    return vector


def _point(point: Any) -> Json:
    vectors = {
        name: {"indices": list(vector.indices), "values": list(vector.values)}
        if isinstance(vector, edge.SparseVector)
        else list(vector)
        for name, vector in (point.vector or {}).items()
    }
    told = {"id": str(point.id), "payload": point.payload, "vector": vectors or None}
    return told | ({"version": 0, "score": point.score} if hasattr(point, "score") else {})
