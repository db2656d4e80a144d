"""Tests what the tests of pages rest on: how links, anchors and commands are found."""

from tests.docs.pages import Command, anchors, commands_in, links, steps

TEXT = """# The two loops, and `phi`

See [one](a.md#top), [two](#here), ![three](b.png) and [elsewhere](https://c.org/d.md).

```bash
# Not a heading
epg-tf meta-test --loss=x "--config.a.b=(4, 4)"   # a remark
make demo
horovodrun -np 2 python -m launch.meta_train --run_dir=runs/x --resume
```

Or `epg-tf list`, or `epg-tf render ... --view=path`.
"""


def test_links_of_the_repository_are_found():
    assert [*links(TEXT)] == [("a.md", "top"), ("", "here"), ("b.png", "")]


def test_anchors_are_those_of_headings():
    assert anchors(TEXT) == {"the-two-loops-and-phi"}


def test_commands_are_found_without_remarks():
    in_blocks = [
        Command("meta_test", ("--loss=x", "--config.a.b=(4, 4)")),
        Command("meta_train", ("--run_dir=runs/x", "--resume")),
    ]
    assert steps(TEXT) == in_blocks
    in_text = [Command("list", ()), Command("render", ("--view=path",))]
    assert [*commands_in(TEXT)] == in_blocks + in_text
