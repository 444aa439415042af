"""Cards: Markdown from templates that lie beside the modules that fill them in."""

from pathlib import Path

import jinja2

from pipeline.inspect_run import printable


def markdown_template(path: Path) -> jinja2.Template:
    """The template in the file `path`, with the filters `thousands` and `line`.

    Nothing is escaped: what comes from texts has to stand in indented blocks.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(path.parent),
        autoescape=False,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["thousands"] = lambda number: f"{number:,}"
    environment.filters["line"] = printable
    return environment.get_template(path.name)
