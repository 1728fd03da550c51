"""Prints the reference of all operators as Markdown, from the table that the core publishes.

    python tools/operators.py > docs/operators.md

Start reading at `main`.
"""

from __future__ import annotations

import adjoint


def escape(text):
    return text.replace("|", "\\|").replace("\n", " ")


def main():
    rows = [r for r in adjoint._C.operators() if not r["name"].startswith("_")]
    families = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    print("# Operators\n")
    print(
        "Generated from the operator table by `tools/operators.py`. Every operator is a function of `adjoint` and, but for"
    )
    print(
        "the few marked so, a method of `Tensor`. ∂: it has a derivative. `name_`: there is an in-place form.\n"
    )
    print(f"{len(rows)} operators in {len(families)} families.\n")
    for family, members in families.items():
        title = "".join(" " + c.lower() if c.isupper() else c for c in family).strip().capitalize()
        print(f"## {title}\n")
        print("| operator | what it does | ∂ | in place | dtypes |")
        print("|---|---|---|---|---|")
        for row in sorted(members, key=lambda r: r["name"]):
            also = f" (also `{'`, `'.join(row['aliases'].split(', '))}`)" if row["aliases"] else ""
            where = (
                ""
                if row["method"] and row["function"]
                else " *function only*"
                if row["function"]
                else " *method only*"
            )
            derivative = "∂" if row["differentiable"] else ""
            inplace = f"`{row['name']}_`" if row["inplace"] else ""
            types = "all" if len(row["types"]) == 12 or not row["types"] else " ".join(row["types"])
            print(
                f"| `{row['name']}({escape(row['signature'])})`{also}{where} | {escape(row['doc'])} | {derivative} | {inplace} | {types} |"
            )
        print()


if __name__ == "__main__":
    main()
