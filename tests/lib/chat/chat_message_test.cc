// Messages from JSON: what is taken, what is kept, and positions of what is wrong.
#include "lib/chat/chat_message.h"

#include <doctest/doctest.h>

#include "lib/chat/message_form.h"

namespace nvllm {
namespace {

std::vector<ChatMessage> read(const std::string& messages, size_t max_messages = SIZE_MAX) {
    auto checked = read_messages(ChatJson::parse(messages), max_messages);
    CAPTURE(messages);
    REQUIRE(checked);
    return std::move(*checked);
}

// As a template gets them.
ChatJson shown(const std::string& messages, const MessageForm& form = {}) {
    return messages_in_form(read(messages), form);
}

// The position that the fault names, with which its message begins.
std::string fault(const std::string& messages, size_t max_messages = SIZE_MAX) {
    const auto checked = read_messages(ChatJson::parse(messages), max_messages);
    if (checked) return "";
    CHECK(checked.fault().kind == ErrorKind::bad_data);
    CHECK(checked.fault().message.starts_with(checked.fault().field));
    return checked.fault().field;
}

// A message that calls a function with these arguments, as JSON; nothing: without any.
std::string calling(const std::string& arguments) {
    const std::string rest = arguments.empty() ? "" : R"(,"arguments":)" + arguments;
    return R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"f")" +
           rest + "}}]}]";
}

ChatJson arguments_of(const std::string& arguments) {
    return shown(calling(arguments))[0]["tool_calls"][0]["function"]["arguments"];
}

TEST_CASE("messages stay as they are, in the order of their keys, with what no program knows") {
    for (
        const char* messages : {
            R"([{"role":"system","content":""},{"name":"x","content":"Hi","role":"user"}])",
            R"([{"role":"assistant","tool_plan":"p","content":"c","audio":{"id":"a"},"n":[1,{"k":null}]}])",
            R"([{"tool_call_id":"7","role":"tool","content":"5"}])",
            R"([{"role":"assistant","content":"","tool_calls":[
                 {"type":"function","index":0,"function":{"arguments":{"b":1,"a":2},"strict":true,"name":"f"},"id":"1"}]}])",
            R"([{"role":"assistant","content":"","tool_calls":[{"name":"f","arguments":{"a":1}}]}])",
        }) {
        CHECK(shown(messages).dump() == ChatJson::parse(messages).dump());
    }
}

TEST_CASE("what is null is not there, and neither is an empty list of calls") {
    const ChatJson message = shown(
        R"([{"role":"assistant","content":"x","refusal":null,"audio":null,"function_call":null,
             "tool_calls":[],"reasoning_content":null,"annotations":[],"name":null}])")[0];
    CHECK(message.dump() == R"({"role":"assistant","content":"x","annotations":[]})");
    CHECK(shown(R"([{"role":"assistant","content":"x","tool_calls":null}])")[0].size() == 2);
}

TEST_CASE("an assistant's message needs no content: it called, refused or thought") {
    for (const char* rest : {"", R"(,"tool_calls":[])", R"(,"reasoning_content":"hm")"}) {
        const std::string begin = R"([{"role":"assistant")" + std::string(rest);
        CHECK(shown(begin + "}]")[0]["content"] == "");
        CHECK(shown(begin + R"(,"content":null}])")[0]["content"] == "");
    }
    CHECK(shown(R"([{"role":"assistant","content":null,"refusal":"no"}])")[0]["content"] == "no");
    CHECK(shown(R"([{"role":"assistant","content":"x","refusal":"no"}])")[0]["content"] == "x");
}

TEST_CASE("vLLM's name of the reasoning and the older one are one field") {
    for (const char* name : {"reasoning", "reasoning_content"}) {
        const ChatJson message =
            shown(R"([{"role":"assistant","content":"x",")" + std::string(name) + R"(":"so"}])")[0];
        CHECK(message["reasoning"] == "so");
        CHECK(message["reasoning_content"] == "so");
    }
}

TEST_CASE("parts of every kind of text become one text, a line each") {
    const std::string parts =
        R"([{"type":"text","text":"one"},"two",{"type":"input_text","text":"three"},{"text":"four"},
            {"type":"output_text","text":"five","annotations":[]},{"type":"text","text":""},
            {"type":"refusal","refusal":"six"},{"type":"thinking","thinking":"seven"}])";
    const std::string message = R"([{"role":"user","content":)" + parts + "}]";
    CHECK(shown(message)[0]["content"] == "one\ntwo\nthree\nfour\nfive\nsix\nseven");
    CHECK(shown(R"([{"role":"user","content":[]}])")[0]["content"] == "");
    const ChatJson list = shown(message, {.takes_parts = true})[0]["content"];
    REQUIRE(list.size() == 7);
    CHECK(list[1] == ChatJson{{"type", "text"}, {"text", "two"}});
    CHECK(list[5] == ChatJson{{"type", "text"}, {"text", "six"}});
    CHECK(shown(R"([{"role":"tool","content":["a","b"]}])", {.takes_parts = true})[0]["content"] ==
          "a\nb");
    CHECK(shown(R"([{"role":"user","content":"a"}])",
                {.takes_parts = true, .needs_parts = true})[0]["content"] ==
          ChatJson::parse(R"([{"type":"text","text":"a"}])"));
}

TEST_CASE("arguments come as the object that their text holds") {
    CHECK(arguments_of(R"("{\"b\": 1, \"a\": {\"x\": [true, null, \"\\u00fc\"]}}")").dump() ==
          R"({"b":1,"a":{"x":[true,null,"ü"]}})");
    CHECK(arguments_of(R"({"z":1,"y":2})").dump() == R"({"z":1,"y":2})");
    for (const char* none : {"", "null", R"("")", R"(" \n")", R"("null")", R"("{}")", "{}"}) {
        CAPTURE(none);
        CHECK(arguments_of(none) == ChatJson::object());
    }
    CHECK(arguments_of(R"("{\"a\": 1, \"b\": 2, \"a\": 3}")").dump() == R"({"a":3,"b":2})");
    CHECK(arguments_of(R"("{\"n\": 9007199254740993, \"m\": -9223372036854775808}")").dump() ==
          R"({"n":9007199254740993,"m":-9223372036854775808})");
}

TEST_CASE("arguments that are no JSON stay the text that the model wrote") {
    for (const char* text : {R"("{\"city\": \"Par")", R"("London")", R"("{a: 1}")", R"("{} {}")"}) {
        CHECK(arguments_of(text) == ChatJson::parse(text));
    }
    CHECK(position_of_broken_arguments(read(calling(R"("{\"city\": \"Par")"))) ==
          "messages[0].tool_calls[0].function.arguments");
    CHECK(position_of_broken_arguments(read(calling(R"("{}")"))).empty());
}

TEST_CASE("arguments have bounds, however they are nested or repeated") {
    const auto quoted = [](const std::string& text) { return ChatJson(text).dump(); };
    const std::string position = "messages[0].tool_calls[0].function.arguments";
    CHECK(fault(calling(quoted(R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') +
                               "}"))) == position);
    std::string keys = R"({"a":1,"a":2)";
    for (int i = 0; i < 300; ++i) keys += ",\"" + std::to_string(i) + "\":0";
    CHECK(fault(calling(quoted(keys + "}"))) == position);
}

TEST_CASE("a call made by a program has the form of the API") {
    ToolCall call;
    call.id = "call_1";
    call.name = "f";
    call.arguments = {{"a", 1}};
    ChatMessage message{.role = "assistant"};
    message.tool_calls.push_back(call);
    CHECK(messages_in_form({message}, {})[0].dump() ==
          R"({"role":"assistant","content":"","tool_calls":[)"
          R"({"id":"call_1","type":"function","function":{"name":"f","arguments":{"a":1}}}]})");
    CHECK(messages_in_form({message},
                           {.argument_texts = true})[0]["tool_calls"][0]["function"]["arguments"] ==
          R"({"a": 1})");
}

TEST_CASE("a developer is a system where the template knows none") {
    const std::string text = R"([{"role":"developer","content":"Be brief."}])";
    CHECK(shown(text, {.knows_developer = false})[0]["role"] == "system");
    CHECK(shown(text)[0]["role"] == "developer");
}

TEST_CASE("what is wrong is named by its position") {
    CHECK(fault("5") == "messages");
    CHECK(fault("[]") == "messages");
    CHECK(fault("{}") == "messages");
    CHECK(fault("[5]") == "messages[0]");
    CHECK(fault("[{}]") == "messages[0].role");
    CHECK(fault(R"([{"role":5,"content":""}])") == "messages[0].role");
    CHECK(fault(R"([{"role":"user","content":""},{"role":"user"}])") == "messages[1].content");
    CHECK(fault(R"([{"role":"user","content":null}])") == "messages[0].content");
    CHECK(fault(R"([{"role":"tool","content":null}])") == "messages[0].content");
    CHECK(fault(R"([{"role":"user","content":5}])") == "messages[0].content");
    CHECK(fault(R"([{"role":"user","content":["x",5]}])") == "messages[0].content[1]");
    CHECK(fault(R"([{"role":"user","content":[{"image":"x"}]}])") == "messages[0].content[0]");
    CHECK(fault(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])") ==
          "messages[0].content[0].type");
    CHECK(fault(R"([{"role":"user","content":[{"type":"text","text":null}]}])") ==
          "messages[0].content[0].text");
    CHECK(fault(R"([{"role":"tool","tool_call_id":5,"content":"5"}])") ==
          "messages[0].tool_call_id");
    CHECK(fault(R"([{"role":"assistant","content":"","tool_calls":{}}])") ==
          "messages[0].tool_calls");
    CHECK(fault(R"([{"role":"assistant","content":"","tool_calls":[{"function":{}}]}])") ==
          "messages[0].tool_calls[0]");
    CHECK(fault(R"([{"role":"assistant","content":"","tool_calls":["f"]}])") ==
          "messages[0].tool_calls[0]");
}

TEST_CASE("roles are the template's to judge") {
    for (const char* role : {"ipython", "function", "robot", "document"}) {
        CHECK(shown(R"([{"role":")" + std::string(role) + R"(","content":"x"}])")[0]["role"] ==
              role);
    }
}

TEST_CASE("no more messages than the limit") {
    const std::string one = R"({"role":"user","content":""})";
    CHECK(read("[" + one + "," + one + "]", 2).size() == 2);
    CHECK(fault("[" + one + "," + one + "," + one + "]", 2) == "messages");
}

// --- Templates that want the same conversation in different forms. ---

std::string rendered(const std::string& source, const std::string& messages) {
    const ChatTemplate chat(source);
    const auto text =
        chat.render({{"messages", messages_in_form(read(messages), form_of(chat))}}, {});
    return text ? text->text : text.fault().message;
}

const char* const kCalling =
    R"([{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[
        {"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":  \"b\"}"}}]}])";

TEST_CASE("forms: templates print, walk through or join arguments") {
    const std::string each = "{% for m in messages %}{% for c in m.tool_calls %}";
    const std::string end = "{% endfor %}{% endfor %}";
    CHECK(rendered(each + "{{ c.function.name }}{{ c.function.arguments | tojson }}" + end,
                   kCalling) == "f{\"a\": \"b\"}");
    CHECK(rendered(each +
                       "{{ c.function.name }}{% for k, v in c.function.arguments | items %}"
                       "<{{ k }}={{ v }}>{% endfor %}" +
                       end,
                   kCalling) == "f<a=b>");
    // What can only be a text is the text that the model wrote.
    CHECK(rendered(each + "{{ c.function.name + c.function.arguments }}" + end, kCalling) ==
          "f{\"a\":  \"b\"}");
}

TEST_CASE("forms: a missing content is an empty text, or null where that is treated on its own") {
    const std::string call =
        "{% for c in m.tool_calls %}{{ c.function.name }}"
        "{{ c.function.arguments | tojson }}{% endfor %}";
    // Would fail.
    CHECK(rendered("{% for m in messages %}{{ m.role }}:{% if '</x>' in m.content %}!{% endif %}" +
                       call + ";{% endfor %}",
                   kCalling) == "user:;assistant:f{\"a\": \"b\"};");
    // Would be printed.
    CHECK(rendered("{% for m in messages %}[{{ m.content }}]" + call + "{% endfor %}", kCalling) ==
          "[q][]f{\"a\": \"b\"}");
    // Would lose the call.
    CHECK(rendered("{% for m in messages %}{% if m.content is none %}" + call +
                       "{% else %}[{{ m.content }}]{% endif %}{% endfor %}",
                   kCalling) == "[q]f{\"a\": \"b\"}");
}

TEST_CASE("forms: parts are joined by those that read lists, and before all others") {
    const std::string parts = R"([{"role":"user","content":[{"type":"text","text":"a"},"b"]}])";
    const std::string text = R"([{"role":"user","content":"a"}])";
    const std::string plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
    const std::string either =
        "{% for m in messages %}{% if m.content is string %}[{{ m.content }}]{% else %}"
        "{% for p in m.content %}{{ p.type }}:{{ p.text }};{% endfor %}{% endif %}{% endfor %}";
    const std::string only =
        "{% for m in messages %}{% for p in m['content'] %}<{{ p['text'] }}>{% endfor %}"
        "{% endfor %}";
    CHECK(rendered(plain, parts) == "[a\nb]");
    CHECK(rendered("{{ messages[0].content + '!' }}", parts) == "a\nb!");
    CHECK(rendered("{{ messages | tojson }}", text) == R"([{"role": "user", "content": "a"}])");
    CHECK(rendered(either, parts) == "text:a;text:b;");
    CHECK(rendered(either, text) == "[a]");
    CHECK(rendered(only, parts) == "<a><b>");
    CHECK(rendered(only, text) == "<a>");
}

TEST_CASE("forms: templates that refuse or never end are taken with the defaults") {
    for (const char* source :
         {"{{ raise_exception('no') }}",
          "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", ""}) {
        const MessageForm form = form_of(ChatTemplate(source));
        CHECK_FALSE(form.takes_parts);
        CHECK_FALSE(form.null_content);
        CHECK_FALSE(form.argument_texts);
    }
}

}  // namespace
}  // namespace nvllm
