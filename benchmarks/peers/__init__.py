"""Libraries that find memories in this process, each driven through its own public API: one file for each.

All of them get the same texts and the same vectors. Those that insist on embedding by themselves are given a lookup
of the vector instead of a model, so nobody pays for encoding.
"""
