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
        lambda: rng.choice([0.1, 1.0, -2.75, 1e15, 1e-7, 123456.789]),
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
TEXT = ["text", "\n", "  \n", " a ", "\n\n", "\t", "{ ", "}", "%", "#}",
        "<|im_start|>", "\n    ", "é", "\r\n"]


def literal(rng):
    return rng.choice(["1", "0", "-2", "3", "2.5", "1e3", "'a'", "\"b\\n\"",
                       "'Hello'", "true", "false", "none", "[]", "[1, 2, 3]",
                       "{'a': 1, 'b': [2]}", "(1, 'x')", "'%s-%d' % ('a', 3)",
                       "'\\u00e9'", "range(4)", "'x' 'y'", "dict(a=1)", "10",
                       "[1, 'a', none, 2.0]", "{}", "''", "7"])


def text(rng, depth=0):
    """An expression that is a text."""
    if depth > 3:
        return rng.choice(["s", "t", "bos_token", "'a b'", "'x\\n'", "\"'\""])

    def sub():
        return text(rng, depth + 1)

    return rng.choice([
        lambda: rng.choice(["s", "t", "bos_token", "'Hello, you'", "''"]),
        lambda: "%s + %s" % (sub(), sub()),
        lambda: "%s ~ (%s)" % (sub(), expression(rng, depth + 1)),
        lambda: "(%s).%s" % (sub(), rng.choice(TEXT_METHODS)),
        lambda: "(%s) | %s" % (sub(), rng.choice(TEXT_FILTERS)),
        lambda: "(%s)[%s]" % (sub(), rng.choice(
            ["1:", ":-1", "::-1", "::2", "1:3", ":2", "-3:", "5:1:-2", "0:0"])),
        lambda: "(%s) | string" % expression(rng, depth + 1),
        lambda: "(%s) | tojson" % thing(rng, depth + 1),
        lambda: "(%s) | tojson(indent=%d)" % (thing(rng, depth + 1),
                                              rng.randrange(4)),
        lambda: "(%s) | join(%s)" % (items(rng, depth + 1), sub()),
        lambda: "%s if %s else %s" % (sub(), truth(rng, depth + 1), sub()),
        lambda: "(%s) * %d" % (sub(), rng.randrange(-1, 3)),
    ])()


TEXT_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('x ')", "upper()",
                "replace('l', 'L')", "replace('', '.', 2)", "lower()",
                "title()", "capitalize()", "split('a')[0]", "removeprefix('H')",
                "split(',')[-1]", "rsplit('a', 1)[0]", "removesuffix('\\n')",
                "lstrip('\\n')", "partition(',')[2]", "rpartition('<')[0]"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "string",
                "replace('a', 'b')", "replace('', '-')", "indent",
                "indent(2, true)", "indent('> ', true, true)", "reverse",
                "default('z', true)", "trim('x')", "first", "last", "d(1)"]


def number(rng, depth=0):
    if depth > 3:
        return rng.choice(["n", "f", "2", "7", "-3", "0.5"])

    def sub():
        return number(rng, depth + 1)

    return rng.choice([
        lambda: rng.choice(["n", "f", "3", "10", "2.5", "1e3", "true"]),
        lambda: "(%s) %s (%s)" % (sub(), rng.choice("+-*"), sub()),
        lambda: "(%s) %s %s" % (sub(), rng.choice(["/", "//", "%"]),
                                rng.choice(["3", "-2", "2.5", "7"])),
        lambda: "(%s) | length" % rng.choice([text, items])(rng, depth + 1),
        lambda: "(%s) | %s" % (sub(), rng.choice(
            ["abs", "int", "float", "round", "round(1)"])),
        lambda: "(s) | int",
        lambda: "(%s).%s" % (text(rng, depth + 1), rng.choice(
            ["find('l')", "count('l')", "rfind(' ')", "find('é')"])),
        lambda: "-(%s)" % sub(), lambda: "xs | %s" % rng.choice(
            ["sum", "max | d(0)", "min | d(0)", "length"]),
    ])()


def items(rng, depth=0):
    """An expression that is a list."""
    if depth > 3:
        return rng.choice(["xs", "ws", "messages", "[1, 2]", "range(3) | list"])

    def sub():
        return items(rng, depth + 1)

    return rng.choice([
        lambda: rng.choice(["xs", "ws", "messages", "d.keys() | list",
                            "d.items() | list", "d.values() | list"]),
        lambda: "[%s, %s]" % (expression(rng, depth + 1),
                              expression(rng, depth + 1)),
        lambda: "(%s) + (%s)" % (sub(), sub()),
        lambda: "(%s)[%s]" % (sub(), rng.choice(
            ["1:", ":-1", "::-1", "::2", "1:3", ":2", "-3:", "3:0:-1"])),
        lambda: "(%s).%s" % (text(rng, depth + 1), rng.choice(
            ["split()", "split(',')", "split('\\n')", "splitlines()",
             "split('a', 1)", "rsplit(',', 1)", "splitlines(true)"])),
        lambda: "xs | %s" % rng.choice(["sort", "sort(reverse=true)",
                                        "unique | list", "select('odd') | list",
                                        "reject('gt', 3) | list"]),
        lambda: "ws | %s" % rng.choice(["sort", "map('upper') | list", "unique",
                                        "map('length') | list",
                                        "select | list", "map('trim') | list",
                                        "sort(case_sensitive=true)"]),
        lambda: "messages | %s | list" % rng.choice(
            ["map(attribute='role')", "map(attribute='content')",
             "selectattr('role', 'equalto', 'user')", "selectattr('name')",
             "rejectattr('role', 'in', ['user', 'tool'])",
             "selectattr('name', 'defined')",
             "map(attribute='name', default='-')"]),
        lambda: "(%s) | list" % text(rng, depth + 1),
        lambda: "(%s) | reverse | list" % sub(),
        lambda: "d | dictsort", lambda: "d | items | list",
    ])()


def truth(rng, depth=0):
    if depth > 3:
        return rng.choice(["flag", "none", "true", "n == 3", "s", "xs"])

    def sub():
        return truth(rng, depth + 1)

    return rng.choice([
        lambda: "(%s) %s (%s)" % (number(rng, depth + 1), rng.choice(
            ["<", ">", "<=", ">=", "==", "!="]), number(rng, depth + 1)),
        lambda: "(%s) %s (%s)" % (text(rng, depth + 1), rng.choice(
            ["<", ">", "==", "!=", "in", "not in"]), text(rng, depth + 1)),
        lambda: "(%s) %s (%s)" % (thing(rng, depth + 1), rng.choice(
            ["==", "!="]), thing(rng, depth + 1)),
        lambda: "%s in (%s)" % (literal(rng), items(rng, depth + 1)),
        lambda: "(%s) %s (%s)" % (sub(), rng.choice(["and", "or"]), sub()),
        lambda: "not (%s)" % sub(),
        lambda: "(%s) is %s%s" % (thing(rng, depth + 1), rng.choice(
            ["", "not "]), rng.choice(TESTS[:13])),
        lambda: "absent is %s" % rng.choice(TESTS[:13]),
        lambda: "(%s).%s" % (text(rng, depth + 1), rng.choice(
            ["startswith('H')", "endswith('\\n')", "isdigit()", "isspace()",
             "startswith(('H', 'a'))", "isalpha()"])),
        lambda: "messages[0].role == 'user'",
    ])()


def thing(rng, depth=0):
    """A value of any type."""
    return rng.choice([
        text, text, number, items, truth, lambda r, d: literal(r),
        lambda r, d: r.choice(["d", "messages[0]", "none", "{'a': n, 'b': xs}",
                               "{}", "(1, s)", "d.get('a')", "d.a", "tools"]),
    ])(rng, depth)


def expression(rng, depth=0):
    if rng.random() < 0.03:
        return wild(rng, depth)
    return rng.choice([text, text, number, items, truth, thing])(rng, depth)


def wild(rng, depth=0):
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
        lambda: t("for x in " + items(rng)) + sub() + t("endfor"),
        lambda: t("for x in messages") + sub() + t("else") + sub() +
        t("endfor"),
        lambda: t("for x, y in d.items()") + sub() + t("endfor"),
        lambda: t("for x in xs if x is %s" % rng.choice(TESTS)) + sub() +
        t("endfor"),
        lambda: t("for x in range(3)") + sub() +
        t("if loop.index %s 2" % rng.choice(["==", ">"])) +
        t(rng.choice(["break", "continue"])) + t("endif") + sub() + t("endfor"),
        lambda: t("set %s = %s" % (rng.choice("xy"), expression(rng))),
        lambda: t("set s = " + text(rng)),
        lambda: t("set x, y = %s, %s" % (expression(rng), expression(rng))),
        lambda: t("set %s" % rng.choice("xyst")) + sub() + t("endset"),
        lambda: t("set ns = namespace(a=%s, b=0)" % expression(rng)),
        lambda: t("set ns = namespace(a=1)") +
        t("set ns.%s = %s" % (rng.choice("ab"), expression(rng))) +
        "{{ ns.a }}{{ ns.b }}",
        lambda: t("macro m(a, b=%s)" % literal(rng)) + "{{ a }}{{ b }}" +
        sub() + t("endmacro"),
        lambda: t("filter %s" % rng.choice(TEXT_FILTERS)) + sub() + t("endfilter"),
        lambda: t("with x=%s, y=1" % expression(rng)) + sub() + t("endwith"),
        lambda: "{#%s %s %s#}" % (rng.choice(["", "-"]), "note\n",
                                  rng.choice(["", "-"])),
        lambda: "{% raw %}" + "{{ raw }} {% x %}" + t("endraw"),
        lambda: "{%- raw -%}" + " {{ raw }}\n " + t("endraw"),
        lambda: t("generation") + sub() + t("endgeneration"),
        lambda: t("macro q(a)") + "<{{ a }}{{ caller(a) }}>" +
        t("endmacro") + t("call(c) q(%s)" % literal(rng)) + "{{ c }}" + sub() +
        t("endcall"),
    ])()


def template(rng):
    return block(rng) + rng.choice(["", "\n", "\n\n"])
