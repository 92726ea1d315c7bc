"""Draws the badges of the README from `pyproject.toml`: they are true offline. `make figures`."""

from __future__ import annotations

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
LETTER, SPARE, HEIGHT = 6.6, 12, 20  # widths of a letter and of what is around a word, in pixels


def badge(name: str, value: str, colour: str) -> str:
    """Return a badge as SVG: a name on grey, its value on a colour, white on both with enough contrast."""
    left, right = (round(len(word) * LETTER + SPARE) for word in (name, value))
    middle = 'y="14" font-family="Verdana, DejaVu Sans, sans-serif" font-size="11" fill="#fff" text-anchor="middle"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{HEIGHT}" role="img" '
        f'aria-label="{name}: {value}"><title>{name}: {value}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="{HEIGHT}" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left}" height="{HEIGHT}" fill="#4a5261"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{colour}"/></g>'
        f'<text x="{left / 2}" {middle}>{name}</text><text x="{left + right / 2}" {middle}>{value}</text></svg>\n'
    )


def badges() -> dict[str, str]:
    """Return the badges by file name."""
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "version.svg": badge("version", project["version"], "#2f62c9"),
        "licence.svg": badge("licence", project["license"], "#1f7a5a"),
        "python.svg": badge("python", project["requires-python"].replace(">=", "") + " or newer", "#7048b5"),
        "typed.svg": badge("types", "mypy strict", "#566072"),
    }


def main() -> None:
    """Write them."""
    folder = HERE / "figures" / "badges"
    folder.mkdir(exist_ok=True)
    for name, text in badges().items():
        (folder / name).write_text(text, encoding="utf-8")
        print(f"docs/figures/badges/{name}")


if __name__ == "__main__":
    main()
