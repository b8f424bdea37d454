// Fields that say what an answer is held to, and the flags of the same meaning.
#include "lib/engine/options/grammar_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "kernels/error.h"
#include "lib/engine/options/grammar_options.h"
#include "lib/engine/options/request_json.h"
#include "tests/error_of.h"

namespace nvllm {
namespace {

Result<JsonRequest> read(const std::string& fields) {
    return request_from_json_text(R"({"prompt": "a", )" + fields + "}", {});
}

void check_spec(const std::string& fields, GrammarKind kind, const std::string& text) {
    CAPTURE(fields);
    const auto request = read(fields);
    REQUIRE(request);
    REQUIRE(request->input.grammar);
    CHECK(request->input.grammar->kind == kind);
    CHECK(request->input.grammar->text == text);
    CHECK(request->says_format);
}

void check_refused(const std::string& fields, const std::string& field, const std::string& says) {
    CAPTURE(fields);
    const auto request = read(fields);
    REQUIRE_FALSE(request);
    CHECK(request.fault().field == field);
    CHECK_MESSAGE(request.fault().message.find(says) != std::string::npos, request.fault().message);
}

TEST_CASE("grammar fields: each form of each API") {
    // In the order of its keys, which is the order of the answer's.
    const std::string schema = R"({"type":"object","a":1})";
    for (const std::string field : {"guided_json", "json_schema"}) {
        check_spec('"' + field + "\": " + schema, GrammarKind::json_schema, schema);
    }
    check_spec(R"("structured_outputs": {"json": )" + schema + "}", GrammarKind::json_schema,
               schema);
    check_spec(R"("guided_json": "{\"type\": 5}")", GrammarKind::json_schema, R"({"type": 5})");
    check_spec(
        R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": )" +
            schema + R"(, "strict": false}})",
        GrammarKind::json_schema, schema);
    check_spec(R"("response_format": {"type": "json_object", "schema": )" + schema + "}",
               GrammarKind::json_schema, schema);
    check_spec(R"("response_format": {"type": "json_object"})", GrammarKind::json_object, "");
    check_spec(R"("guided_json_object": true)", GrammarKind::json_object, "");
    check_spec(R"("structured_outputs": {"regex": "a+", "json": null, "disable_fallback": true})",
               GrammarKind::regex, "a+");
    check_spec(R"("guided_regex": "a+")", GrammarKind::regex, "a+");
    check_spec(R"("guided_choice": ["a", "b"])", GrammarKind::choice, R"(["a","b"])");
    check_spec(R"("guided_grammar": "root ::= x")", GrammarKind::grammar, "root ::= x");
    check_spec(R"("grammar": "root ::= x")", GrammarKind::grammar, "root ::= x");
    check_spec(R"("structured_outputs": {"structural_tag": "{}"})", GrammarKind::structural_tag,
               "{}");
    check_spec(R"("response_format": {"type": "structural_tag", "format": {}})",
               GrammarKind::structural_tag, R"({"type":"structural_tag","format":{}})");
}

TEST_CASE("grammar fields: what asks for nothing") {
    for (const std::string fields :
         {R"("response_format": {"type": "text"})", R"("grammar": "")", R"("json_schema": "")",
          R"("guided_json": false)", R"("guided_json_object": false)"}) {
        CAPTURE(fields);
        const auto request = read(fields);
        REQUIRE(request);
        CHECK_FALSE(request->input.grammar);
        CHECK(request->says_format);
    }
    CHECK_FALSE(read(R"("guided_json": null)")->says_format);
    CHECK_FALSE(read(R"("guided_decoding_backend": "x")")->says_format);
}

TEST_CASE("grammar fields: what is refused names the field") {
    check_refused(R"("guided_regex": "a", "grammar": "root ::= x")", "grammar", "'guided_regex'");
    check_refused(R"("structured_outputs": {"regex": "a", "choice": ["b"]})", "structured_outputs",
                  "not both 'regex' and 'choice'");
    check_refused(R"("structured_outputs": {})", "structured_outputs", "one of json");
    check_refused(R"("structured_outputs": {"disable_any_whitespace": true, "regex": "a"})",
                  "structured_outputs", "'disable_any_whitespace' is not known");
    check_refused(R"("response_format": {"type": "sound"})", "response_format", "json_schema");
    check_refused(R"("response_format": {"type": "json_schema"})", "response_format", "schema");
    check_refused(R"("response_format": {"type": "json_object", "depth": 1})", "response_format",
                  "'depth' is not known");
    check_refused(R"("guided_json": 5)", "guided_json", "a JSON schema");
    check_refused(R"("guided_choice": [])", "guided_choice", "one at least");
    check_refused(R"("guided_whitespace_pattern": " ")", "guided_whitespace_pattern", "unknown");
}

// --NAME VALUE
GrammarFlags flags(std::string GrammarFlags::*flag, const std::string& value) {
    GrammarFlags given;
    given.*flag = value;
    return given;
}

TEST_CASE("grammar flags: one of them, as a file or as it stands") {
    CHECK_FALSE(GrammarFlags{}.spec());
    CHECK(flags(&GrammarFlags::json_schema, "{}").spec() ==
          GrammarSpec{GrammarKind::json_schema, "{}"});
    CHECK(flags(&GrammarFlags::grammar, "root ::= a").spec()->text == "root ::= a");
    CHECK(flags(&GrammarFlags::choice, R"(["a", "b"])").spec() ==
          GrammarSpec{GrammarKind::choice, R"(["a","b"])"});
    const auto says = [](ErrorKind kind, const GrammarFlags& given) {
        return test::error_of(kind, [&] { given.spec(); });
    };
    says(ErrorKind::not_found, flags(&GrammarFlags::json_schema, "no-such-file"));
    says(ErrorKind::usage, flags(&GrammarFlags::choice, "[5]"));
    says(ErrorKind::usage, flags(&GrammarFlags::choice, "a"));
    GrammarFlags two = flags(&GrammarFlags::regex, "a");
    two.json_object = true;
    const std::string message = says(ErrorKind::usage, two);
    CHECK(message.find("--json-object and --regex") != std::string::npos);
}

}  // namespace
}  // namespace nvllm
