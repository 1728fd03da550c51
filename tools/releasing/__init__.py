"""What tools/release.py does, by subject: `targets` (systems and their compilers), `build` (the module for each Python),
`wheel` (the file), `proofs` (what is checked of it, and where), `page` (the tables of docs/platforms.md)."""
