"""``python -m actrone_memory.cli`` is ``actrone-memory``."""

from actrone_memory.cli import main

main()
