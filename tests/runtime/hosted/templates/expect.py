#!/usr/bin/env python3
"""What Jinja2 itself makes of the templates here, in the environment of Hugging Face's chat
templates: writes expected.json and fills in expressions.json. Run it after a change of a template
or an expression; needs python3-jinja2. The tests read the results and need no Python."""
import json
from pathlib import Path

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).resolve().parent
CONVERSATIONS = {
    "question": [("user", "Hi there!")],
    "second question": [("system", "Be brief."), ("user", "Who are you?"), ("assistant", "A model."),
                        ("user", "Grüße, 世界! {{ 1 }}")],
    "answered": [("user", "  One \n"), ("assistant", " <think>\nhm\n</think>\n\nTwo \n")],
    "thought": [("user", "1+1?"), ("assistant", "<think>\nhm\n</think>\n\n2"), ("user", " and\n2+2? ")],
    "wrong order": [("assistant", "Me first."), ("user", "No.")],
}


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda text: "01 Jan 1970" if text == "%d %b %Y" else "?"
    return env


def render(source, variables):
    """The text, or None when it is refused."""
    try:
        return environment().from_string(source).render(**variables)
    except Exception:  # whatever a template can do wrong
        return None


def main():
    expected = {}
    for path in sorted(HERE.glob("*.jinja")):
        cases = {}
        for name, messages in CONVERSATIONS.items():
            listed = [{"role": role, "content": text} for role, text in messages]
            for opened in (True, False):
                cases[name + (", open" if opened else "")] = {
                    "messages": listed, "open": opened,
                    "text": render(path.read_text(encoding="utf-8"), {
                        "messages": listed, "add_generation_prompt": opened, "bos_token": "<s>",
                        "eos_token": "</s>", "tools": None, "documents": None})}
        expected[path.stem] = cases
    write("expected.json", expected)
    expressions = json.loads((HERE / "expressions.json").read_text(encoding="utf-8"))
    for case in expressions["cases"]:
        case["expected"] = render(case["template"], expressions["variables"])
    write("expressions.json", expressions)


def write(name, value):
    (HERE / name).write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
