"""The commands of the command line, one module each: arguments come in, printed results and an exit code go out.

Each module defines its arguments in `add_parser` and imports what it runs only when it runs, so that `gateway serve`
loads nothing that only other commands need.
"""
