"""What tools/release.py does, by subject: `targets` (systems and their compilers), `build` (the module for each Python),
`wheel` (the file), `proofs` (what is checked of it, and where; `suite` runs tests there), `emulation` (the same on another machine's
processor), `page` (the tables of docs/platforms.md)."""
