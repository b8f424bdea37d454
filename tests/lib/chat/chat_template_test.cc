// Chat templates on small inputs: what Jinja means, what a request may not do, and limits.
#include "lib/chat/chat_template.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

const Json kVariables = Json::parse(R"({
    "messages": [{"role": "user", "content": "Hi <|end|>"}, {"role": "assistant", "content": "  Yes "}],
    "n": 3, "l": [3, 1, 2], "d": {"b": 1, "a": [true, null, 1.5]}, "s": "it's", "eos_token": "<|end|>"})");

RenderedChat render(const std::string& source, const RenderOptions& options = {}) {
    auto result = ChatTemplate(source).render(kVariables, options);
    if (!result.ok()) return {"FAULT " + result.fault().message, {}};
    return std::move(*result);
}

struct Case {
    const char* source;
    const char* output;
};

TEST_CASE("chat template: expressions and statements") {
    const Case cases[] = {
        {"{{ 1 + 2 * 3 }} {{ 7 // 2 }} {{ -7 % 3 }} {{ 2 ** 3 }} {{ 1 / 2 }}", "7 3 2 8 0.5"},
        {"{{ l|sort|join(',') }} {{ l[::-1] }} {{ l[-1] }}", "1,2,3 [2, 1, 3] 2"},
        {"{{ d }} {{ d|tojson }}",
         "{'b': 1, 'a': [True, None, 1.5]} {\"b\": 1, \"a\": [true, null, 1.5]}"},
        {"{{ [s] }} {{ missing }}|{{ missing|default('x') }}", "[\"it's\"] |x"},
        {"{% for m in messages %}{{ loop.index }}{{ m.role[0]|upper }}{% if not loop.last %},{% "
         "endif %}{% endfor %}",
         "1U,2A"},
        {"{% set x = 1 %}{% for i in l %}{% set x = x + i %}{% endfor %}{{ x }}", "1"},
        {"{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ "
         "ns.x }}",
         "7"},
        {"{% macro f(a, b='!') %}{{ a }}{{ b }}{% endmacro %}{{ f('x') }}{{ f('y', b='?') }}",
         "x!y?"},
        {"  {% if n == 3 %}\n  a\n  {%- endif %}\nb", "  ab"},
        {"{# c #}a {{- 'b' -}} c", "abc"},
        {"{{ '%s-%03d' % ('a', 7) }} {{ '{:>4}|{}'.format(1, 'b') }}", "a-007    1|b"},
        {"{{ messages[1].content|trim }}.{{ messages[1].content.strip().lower() }}", "Yes.yes"},
        {"{{ 'ababa'.rfind('ba') }}{{ 'ababa'.find('ba') }}{{ 'ab'.rfind('') }}{{ 'ab'.find('c') "
         "}} "
         "{{ 'a--b---c'.rsplit('--') }} {{ 'a--b---c'.rsplit('--', 1) }} {{ "
         "'a-b-c'.rpartition('-') "
         "}} {{ 'aaaa'.count('aa') }}",
         "312-1 ['a', 'b-', 'c'] ['a--b-', 'c'] ('a-b', '-', 'c') 2"},
        {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
        {"{% call(x) each() %}{{ x }}{% endcall %}",
         "FAULT chat template, line 1: 'each' is undefined"},
        {"{{ raise_exception('no system role') }}", "FAULT chat template, line 1: no system role"},
        {"{% generation %}{{ n }}{% endgeneration %}", "3"},
        {"{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
         "13"},
    };
    for (const Case& one : cases) {
        CAPTURE(one.source);
        const std::string text = render(one.source).text;
        CHECK(text == one.output);
    }
}

TEST_CASE("chat template: the time is what it is told to be") {
    RenderOptions options;
    std::tm now{};
    now.tm_year = 126;
    now.tm_mday = 2;
    options.now = now;
    CHECK(render("{{ strftime_now('%Y-%m-%d') }}", options).text == "2026-01-02");
}

TEST_CASE("chat template: mistakes are refused with their line") {
    for (const char* source :
         {"{{ 1 +", "{% if %}{% endif %}", "{% for x %}{% endfor %}", "a\n{% nonsense %}",
          "{{ (1 }}", "{% endif %}", "{% if 1 %}", "{# open", "{{ 'open }}", "{% include 'x' %}",
          "{% break %}", "{{ 99999999999999999999 }}", "\xFF"}) {
        CAPTURE(source);
        CHECK_THROWS_AS(ChatTemplate{source}, Error);
    }
    try {
        ChatTemplate("a\nb\n{{ ) }}");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("line 3") != std::string::npos);
    }
}

TEST_CASE("chat template: hostile templates end with a fault") {
    const char* sources[] = {
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}",
        "{{ 'a' * 99999999999 }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x "
        "%}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor "
        "%}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ '%99999999999d' % 1 }}",
        "{{ 'a'.center(99999999999) }}",
        "{{ 'aaaa'|replace('', 'b' * 99999)|replace('', 'c' * 99999) }}",
        "{{ 2 ** 99999 }}",
        "{{ l.append(1) }}",
        // Forms and comparisons that never end, or only after 2 to the 40th steps.
        "{% set a = namespace() %}{% set a.b = [a] %}{{ a }}",
        "{% set a = namespace() %}{% for i in range(9999) %}{% set a = namespace(b=a) %}{% endfor "
        "%}{% set b = namespace(a=a) %}{% set a.b = b %}{{ [b]|pprint }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% "
        "endfor %}{{ ns.x }}",
        "{% set ns = namespace(x={}) %}{% for i in range(40) %}{% set ns.x = {'a': ns.x, 'b': "
        "ns.x} %}{% endfor %}{{ ns.x|tojson }}",
        "{% set ns = namespace(x=1) %}{% for i in range(40) %}{% set ns.x = namespace(a=ns.x, "
        "b=ns.x) %}{% endfor %}{{ ns.x }}",
        "{% set a = ['a' * 99999] * 99 %}{% set b = ['a' * 99999] * 99 %}{% for i in range(99999) "
        "%}{% if a != b %}x{% endif %}{% endfor %}",
        "{% set a = ('a' * 99999,) * 999 %}{% for i in range(99999) %}{{ 1 if {1: 1, a: 1, (a, a): "
        "1}[a] == 2 }}{% endfor %}",
        "{{ (['a' * 99999] * 9999)|tojson }}",
        "{% set a = 'a' * 999999 %}{% set b = 'a' * 499999 ~ 'b' %}{% for i in range(9999) %}{{ b "
        "in a or a.rfind('b' ~ b) == 1 or a.rsplit(b) }}{% endfor %}",
        "{% set a = 'a' * 999999 %}{% for i in range(99999) %}{% if a.startswith('b') or a is "
        "upper "
        "or a|length == 3 %}{% endif %}{% endfor %}",
        "{{ [d, l]|tojson(indent='a' * 9999999)|tojson(indent='a') }}",
        "{{ range(999999999) }}",
    };
    for (const char* source : sources) {
        CAPTURE(source);
        CHECK(render(source).text.starts_with("FAULT"));
    }
    CHECK(render("{% set a = namespace(b=namespace(c=l)) %}{{ [a] }} {{ d == {'b': 1, 'a': [true, "
                 "none, 1.5]} }} {{ {(1, 2): 3}[(1, 2)] }}")
              .text == "[<Namespace {'b': <Namespace {'c': [3, 1, 2]}>}>] True 3");
    std::string nested;
    for (int i = 0; i < 100000; ++i) nested += "(";
    CHECK_THROWS_AS(ChatTemplate("{{ " + nested + " }}"), Error);
    std::string chain = "{{ 1";
    for (int i = 0; i < 100000; ++i) chain += "+1";
    CHECK_THROWS_AS(ChatTemplate(chain + " }}"), Error);
    std::string blocks;
    for (int i = 0; i < 100000; ++i) blocks += "{% if 1 %}";
    CHECK_THROWS_AS(ChatTemplate{blocks}, Error);
    // Objects that hold themselves are freed all the same (the sanitizer's leak check tells).
    CHECK(render("{% set a = namespace() %}{% set b = namespace(a=a) %}{% set a.b = b %}x").text ==
          "x");
}

TEST_CASE("chat template: what messages say is known in the output") {
    const auto chat = render(
        "<|user|>{{ messages[0].content }}{{ eos_token }}{{ messages[0].role }}{{ d|tojson }}");
    CHECK(chat.text == "<|user|>Hi <|end|><|end|>user{\"b\": 1, \"a\": [true, null, 1.5]}");
    REQUIRE(chat.from_messages.size() == 2);
    CHECK(chat.from_messages[0] == ByteRange{8, 18});
    // A form is marked as a whole, whatever it is the form of.
    const auto form = render("{% set a = namespace(b=[messages[0].content]) %}x{{ a }}");
    REQUIRE(form.from_messages.size() == 1);
    CHECK(form.from_messages[0] == ByteRange{1, form.text.size()});
    // Slices, replacements and joins keep track.
    const auto cut = render("ab{{ (messages[0].content ~ '!')[3:]|replace('end', 'END')|upper }}");
    CHECK(cut.text == "ab<|END|>!");
    REQUIRE(cut.from_messages.size() == 2);
    CHECK(cut.from_messages[0] == ByteRange{2, 4});
    CHECK(cut.from_messages[1] == ByteRange{7, 9});
}

TEST_CASE("chat template: blocks by name, and pprint as Python has it") {
    const Case cases[] = {
        {"{% set x = 1 %}{% block b %}[{{ x }}]{% endblock %}{% set x = 2 %}{{ self.b() }}"
         "{{ self.b()|length }}",
         "[1][2]3"},
        {"{{ self.nothing is defined }}{{ self is defined }}", "FalseTrue"},
        {"{% for i in [1] %}{% block c %}c{% endblock %}{% endfor %}{{ self.c() }}", "cc"},
        {"{% if false %}{% block d %}d{% endblock %}{% endif %}{{ self.d() }}", "d"},
        {"{{ {2: 1, 'a': 0, 1: {'z': 1, 'b': 2}}|pprint }}", "{1: {'b': 2, 'z': 1}, 2: 1, 'a': 0}"},
        {"{{ {'zeta': [1, 2, 3], 'alpha': {'b': none, 'a': true}, 'text': 'the quick brown fox "
         "jumps over the lazy dog and then some more words come here\\nsecond line', 't': (1,)}"
         "|pprint }}",
         "{'alpha': {'a': True, 'b': None},\n 't': (1,),\n 'text': 'the quick brown fox jumps over "
         "the lazy dog and then some more words '\n         'come here\\n'\n         'second "
         "line',\n 'zeta': [1, 2, 3]}"},
        {"{{ 'the quick brown fox jumps over the lazy dog and then some more words come here\\n"
         "second line'|pprint }}",
         "('the quick brown fox jumps over the lazy dog and then some more words come '\n 'here"
         "\\n'\n 'second line')"},
        {"{{ [{'name': 'get_weather', 'parameters': {'type': 'object', 'properties': {'city': "
         "{'type': 'string'}}}}, 'x' * 90, ('a' * 50, 'b' * 40)]|pprint|length }}",
         "303"},
    };
    for (const Case& row : cases) {
        CAPTURE(row.source);
        CHECK(render(row.source).text == row.output);
    }
    CHECK(render("{% block b %}{{ self.b() }}{% endblock %}").text.find("too deeply") !=
          std::string::npos);
}

TEST_CASE("chat template: the time may come from the environment") {
    ::setenv("NVLLM_NOW", "2026-01-02 03:04:05", 1);
    CHECK(render("{{ strftime_now('%d %b %Y %H') }}").text == "02 Jan 2026 03");
    ::setenv("NVLLM_NOW", "soon", 1);
    CHECK(render("x").text.find("NVLLM_NOW") != std::string::npos);
    ::unsetenv("NVLLM_NOW");
    CHECK(render("x").text == "x");
}

TEST_CASE("chat template: special tokens within messages stay text") {
    const auto tokenizer = test::tokenizer_of(test::byte_level_json());
    const auto chat = render("<|user|>{{ messages[0].content }}<|end|>");
    const auto ids = encode_chat(*tokenizer, chat);
    CHECK(std::count(ids.begin(), ids.end(), 260) == 1);
    CHECK(std::count(ids.begin(), ids.end(), 261) == 1);
    CHECK(ids.back() == 260);
    CHECK(tokenizer->decode(ids, false) == chat.text);
    const auto allowed = encode_chat(*tokenizer, chat, true);
    CHECK(std::count(allowed.begin(), allowed.end(), 260) == 2);
    // Not even half a token may come from a message.
    const auto half = render("<{{ messages[0].content[4:] }}|end|>");
    CHECK(half.text == "<|end|>|end|>");
    const auto half_ids = encode_chat(*tokenizer, half);
    CHECK(std::count(half_ids.begin(), half_ids.end(), 260) == 0);
}

}  // namespace
}  // namespace nvllm
