"""Random chat templates and conversations."""

TOOLS = [
    {"type": "function", "function": {
        "name": "get_weather", "description": "The weather <now> & \"then\".",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Näme of a city"},
                "unit": {"type": "string", "enum": ["C", "F"]},
                "days": {"type": "integer", "default": 3, "minimum": 1.0},
                "where": {"type": "object", "properties": {
                    "lat": {"type": "number", "description": "latitude"}},
                    "required": ["lat"]},
                "tags": {"type": "array", "items": {"type": "string"}}},
            "required": ["city"]},
        "return": {"type": "string", "description": "text"}}},
    {"type": "function", "function": {
        "name": "stop", "description": "Stops.",
        "parameters": {"type": "object", "properties": {}, "required": []}}}]

CALL = {"role": "assistant", "content": "", "tool_calls": [
    {"id": "abcdef123", "type": "function", "function": {
        "name": "get_weather",
        "arguments": {"city": "Köln", "days": 2, "x": 1.5, "ok": True,
                      "no": None, "list": [1, "a"]}}}]}
ANSWER = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123",
          "content": "{\"t\": 21}"}


def user(text):
    return {"role": "user", "content": text}


def said(text):
    return {"role": "assistant", "content": text}


SYSTEM = {"role": "system", "content": "You are terse.\n"}
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
          "pad_token": "<pad>"}

CONVERSATIONS = [dict(c, **TOKENS) for c in [
    {"messages": [user("Hello")]},
    {"messages": [user("Hello")], "add_generation_prompt": False},
    {"messages": [SYSTEM, user(" Hi \n"), said(" Hello. "), user("Bye")]},
    {"messages": [user("a"), said("<think>\nhm\n</think>\n\nb"), user("c")]},
    {"messages": [user("a"), said("b")], "add_generation_prompt": False},
    {"messages": [user("a"), {"role": "assistant", "content": "b",
                              "reasoning_content": "why"}, user("c")]},
    {"messages": [user("a"), {"role": "assistant", "content": "b",
                              "thinking": "why"}, user("c")],
     "enable_thinking": False},
    {"messages": [user("a")], "enable_thinking": False},
    {"messages": [user("a")], "enable_thinking": True},
    {"messages": [user("a")], "thinking": True, "tools": TOOLS},
    {"messages": [SYSTEM, user("weather?")], "tools": TOOLS},
    {"messages": [SYSTEM, user("weather?"), CALL, ANSWER], "tools": TOOLS},
    {"messages": [user("weather?"), CALL, ANSWER, said("21"), user("ok")],
     "tools": TOOLS},
    {"messages": [user("weather?"), dict(CALL, content=None), ANSWER, ANSWER],
     "tools": TOOLS},
    {"messages": [user("weather?"), dict(CALL, content="let me see"), ANSWER,
                  said("x"), user("y"), CALL, ANSWER], "tools": TOOLS},
    {"messages": [user("weather?"), dict(CALL, tool_calls=[
        dict(CALL["tool_calls"][0], function={
            "name": "f", "arguments": "{\"a\": 1}"})]), ANSWER]},
    {"messages": [user([{"type": "text", "text": "part"},
                        {"type": "text", "text": "two"}])]},
    {"messages": [user([{"type": "image"}, {"type": "text", "text": "what"}])]},
    {"messages": [{"role": "developer", "content": "dev"}, user("x")]},
    {"messages": [user("x")], "documents": [
        {"title": "T", "text": "text of it"}, {"title": "U", "text": "more"}]},
    {"messages": [user("x")], "reasoning_effort": "high",
     "builtin_tools": ["browser", "python"]},
    {"messages": [said("x")]},
    {"messages": [user("a"), user("b")]},
    {"messages": []},
]]

TEXTS = ["Hello", "", " spaces  ", "line\nline\r\ntwo\n\n", "Ünï 你好 😀",
         "quotes \" ' \\", "<|im_end|>", "<think>a</think>b", "{{ x }} {% y %}",
         "a,b,,c", "3", "3.50", "-7", "tab\tx", "ALL caps", "o'neil-smith (x)",
         "\u00a0nbsp\u2003", "x" * 40]


def conversation(rng):
    messages = []
    for _ in range(rng.randrange(5)):
        message = {"role": rng.choice(["system", "user", "assistant", "tool"]),
                   "content": rng.choice(TEXTS)}
        if rng.random() < 0.1:
            message["content"] = None
        if rng.random() < 0.1:
            message["content"] = [{"type": "text", "text": rng.choice(TEXTS)}]
        if rng.random() < 0.2:
            message["tool_calls"] = CALL["tool_calls"]
        if rng.random() < 0.2:
            message["name"] = rng.choice(TEXTS)
        messages.append(message)
    out = dict(TOKENS, messages=messages, n=rng.randrange(-3, 9), f=2.5,
               s=rng.choice(TEXTS), t=rng.choice(TEXTS), flag=True, none=None,
               xs=[rng.randrange(9) for _ in range(rng.randrange(5))],
               ws=[rng.choice(TEXTS) for _ in range(rng.randrange(5))],
               d={rng.choice("abcdeXYZ"): value(rng) for _ in range(3)})
    if rng.random() < 0.5:
        out["tools"] = TOOLS
    return out


def value(rng, depth=0):
    return rng.choice([
        lambda: rng.randrange(-5, 20), lambda: rng.random() < 0.5,
        lambda: rng.choice([0.1, 1.0, -2.75, 1e20, 1e-7, 123456.789]),
        lambda: None, lambda: rng.choice(TEXTS),
        lambda: [value(rng, 1) for _ in range(2)] if not depth else 1,
        lambda: {"k": value(rng, 1)} if not depth else "v"])()


NAMES = ["messages", "s", "t", "n", "f", "xs", "ws", "d", "flag", "none",
         "tools", "bos_token", "x", "y", "m", "loop", "ns", "absent",
         "messages[0]", "messages[-1].content", "messages[0]['role']", "ns.a",
         "ns.b", "loop.index", "loop.last", "loop.index0", "loop.length"]
FILTERS = ["trim", "length", "upper", "lower", "title", "capitalize", "list",
           "first", "last", "string", "int", "float", "abs", "sort", "unique",
           "reverse", "join", "join(', ')", "tojson", "tojson(indent=2)",
           "default('dflt')", "default('z', true)", "d(1)", "items", "dictsort",
           "replace('a', 'b')", "replace('', '-')", "indent", "indent(2, true)",
           "map('upper')", "map(attribute='role')", "map(attribute='content')",
           "selectattr('role', 'equalto', 'user')", "selectattr('content')",
           "rejectattr('role', 'eq', 'user')", "select('string')",
           "select('odd')", "reject('none')", "select", "sum", "min", "max",
           "round", "round(1)", "safe", "count", "map('trim')", "trim('x')",
           "sort(reverse=true)", "map('length')", "tojson(sort_keys=true)",
           "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)",
           "dictsort(by='value')", "dictsort(reverse=true)", "wordcount",
           "sort(attribute='role')", "map(attribute='absent', default=3)",
           "join('|', attribute='role')", "format('a', 1)", "attr('x')"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float",
         "boolean", "mapping", "iterable", "sequence", "true", "false", "odd",
         "even", "divisibleby(3)", "equalto(1)", "eq 'Hello'", "in ['a', 3]",
         "ne 3", "gt 2", "lt(5)", "upper", "lower", "callable", "sameas(none)"]
METHODS = ["strip()", "lstrip()", "rstrip()", "split()", "split(',')",
           "split('\\n')", "split('a', 1)", "strip('x ')", "startswith('H')",
           "endswith('\\n')", "replace('l', 'L')", "replace('', '.', 2)",
           "upper()", "lower()", "title()", "capitalize()", "find('o')",
           "count('l')", "join(ws)", "items()", "keys()", "values()",
           "get('k')", "get('a', 5)", "rsplit(',', 1)", "splitlines()",
           "isdigit()", "isalpha()", "isspace()", "rfind('l')", "index(3)",
           "removeprefix('H')", "partition(',')", "startswith(('H', 'a'))",
           "splitlines(true)", "rpartition('<')", "append(1)", "isalnum()"]
TEXT = ["text", "\n", "  \n", " a ", "\n\n", "\t", "{", "}", "%", "#",
        "<|im_start|>", "\n    ", "é", "\r\n"]


def literal(rng):
    return rng.choice(["1", "0", "-2", "3", "2.5", "1e3", "'a'", "\"b\\n\"",
                       "'Hello'", "true", "false", "none", "[]", "[1, 2, 3]",
                       "{'a': 1, 'b': [2]}", "(1, 'x')", "'%s-%d' % ('a', 3)",
                       "'\\u00e9'", "range(4)", "'x' 'y'", "dict(a=1)", "10",
                       "[1, 'a', none, 2.0]", "{}", "''", "7"])


def expression(rng, depth=0):
    if depth > 3:
        return rng.choice([rng.choice(NAMES), literal(rng)])

    def sub():
        return expression(rng, depth + 1)

    return rng.choice([
        lambda: rng.choice(NAMES), lambda: rng.choice(NAMES),
        lambda: literal(rng),
        lambda: "%s | %s" % (sub(), rng.choice(FILTERS)),
        lambda: "(%s)|%s" % (sub(), rng.choice(FILTERS)),
        lambda: "%s is %s%s" % (sub(), rng.choice(["", "not "]),
                                rng.choice(TESTS)),
        lambda: "(%s).%s" % (sub(), rng.choice(METHODS)),
        lambda: "%s %s %s" % (sub(), rng.choice(
            ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">=", "and",
             "or", "in", "not in", "~", "+", "+", "**"]), sub()),
        lambda: "%s if %s else %s" % (sub(), sub(), sub()),
        lambda: "(%s if %s)" % (sub(), sub()),
        lambda: "not %s" % sub(),
        lambda: "(%s)[%s]" % (sub(), rng.choice(
            ["0", "-1", "1:", ":-1", "::-1", "::2", "1:3", "'content'", "'k'",
             "9", "-3:", ":2", "2:0:-1"])),
        lambda: "(%s).%s" % (sub(), rng.choice(
            ["role", "content", "absent", "function", "name", "k", "0"])),
        lambda: "-%s" % sub(),
        lambda: "[%s, %s]" % (sub(), sub()),
        lambda: "{'a': %s, %s: 1}" % (sub(), rng.choice(["'b'", "1", "n"])),
        lambda: "m(%s, b=%s)" % (sub(), sub()),
        lambda: "%s < %s <= %s" % (sub(), sub(), sub()),
        lambda: "strftime_now('%d %b %Y')",
    ])()


def tag(rng, text):
    return "{%%%s %s %s%%}" % (rng.choice(["", "-", "", "+"]), text,
                               rng.choice(["", "-", "", "+"]))


def block(rng, depth=0):
    out = []
    for _ in range(rng.randrange(1, 5)):
        out.append(rng.choice(TEXT))
        out.append(statement(rng, depth))
    out.append(rng.choice(TEXT))
    return "".join(out)


def statement(rng, depth):
    if depth > 2:
        return "{{ %s }}" % expression(rng)

    def sub():
        return block(rng, depth + 1)

    def t(text):
        return tag(rng, text)

    return rng.choice([
        lambda: "{{%s %s %s}}" % (rng.choice(["", "-"]), expression(rng),
                                  rng.choice(["", "-"])),
        lambda: "{{ %s }}" % expression(rng),
        lambda: "{{ %s }}" % expression(rng),
        lambda: t("if " + expression(rng)) + sub() + t("endif"),
        lambda: t("if " + expression(rng)) + sub() +
        t("elif " + expression(rng)) + sub() + t("else") + sub() + t("endif"),
        lambda: t("for x in " + expression(rng)) + sub() + t("endfor"),
        lambda: t("for x in messages") + sub() + t("else") + sub() +
        t("endfor"),
        lambda: t("for x, y in d.items()") + sub() + t("endfor"),
        lambda: t("for x in xs if x is %s" % rng.choice(TESTS)) + sub() +
        t("endfor"),
        lambda: t("for x in range(3)") + sub() +
        t("if loop.index %s 2" % rng.choice(["==", ">"])) +
        t(rng.choice(["break", "continue"])) + t("endif") + sub() + t("endfor"),
        lambda: t("set %s = %s" % (rng.choice("xymst"), expression(rng))),
        lambda: t("set x, y = %s, %s" % (expression(rng), expression(rng))),
        lambda: t("set %s" % rng.choice("xyst")) + sub() + t("endset"),
        lambda: t("set ns = namespace(a=%s, b=0)" % expression(rng)),
        lambda: t("set ns.%s = %s" % (rng.choice("ab"), expression(rng))),
        lambda: t("macro m(a, b=%s)" % literal(rng)) + "{{ a }}{{ b }}" +
        sub() + t("endmacro"),
        lambda: t("filter %s" % rng.choice(FILTERS)) + sub() + t("endfilter"),
        lambda: t("with x=%s, y=1" % expression(rng)) + sub() + t("endwith"),
        lambda: "{#%s %s %s#}" % (rng.choice(["", "-"]), "note\n",
                                  rng.choice(["", "-"])),
        lambda: t("raw") + "{{ raw }} {% x %}" + t("endraw"),
        lambda: t("generation") + sub() + t("endgeneration"),
        lambda: t("call m(1)") + sub() + t("endcall"),
    ])()


def template(rng):
    return block(rng) + rng.choice(["", "\n", "\n\n"])
