// Renderings that Jinja2 gave, for the templates of the shared data.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/chat/chat_message.h"
#include "lib/chat/chat_template.h"
#include "lib/chat/mistral_format.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

// What the renderings were made with: 2026-01-02 03:04:05, a Friday.
RenderOptions fixed_time() {
    std::tm now{};
    now.tm_year = 126;
    now.tm_mon = 0;
    now.tm_mday = 2;
    now.tm_hour = 3;
    now.tm_min = 4;
    now.tm_sec = 5;
    now.tm_wday = 5;
    now.tm_yday = 1;
    RenderOptions options;
    options.now = now;
    return options;
}

// The text, or the reason why there is none.
Result<std::string> render(const std::string& source, const Json& variables) {
    try {
        auto result = ChatTemplate(source).render(variables, fixed_time());
        if (!result.ok()) return result.fault();
        size_t end = 0;
        for (const ByteRange& range : result->from_messages) {
            REQUIRE(range.begin < range.end);
            REQUIRE((end == 0 || range.begin > end));
            end = range.end;
        }
        REQUIRE(end <= result->text.size());
        return result->text;
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

template <typename Visit>
void each_line(const std::filesystem::path& path, Visit&& visit) {
    std::ifstream file(path);
    REQUIRE(file.good());
    for (std::string line; std::getline(file, line);) visit(Json::parse(line));
}

TEST_CASE("chat template cases: renderings") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    size_t right = 0;
    size_t all = 0;
    each_line(folder / "renderings.jsonl", [&](const Json& entry) {
        const std::string name = entry["template"];
        const std::string which = entry["case"];
        CAPTURE(name);
        CAPTURE(which);
        const auto result = render(read_file(folder / "templates" / name), entry["context"]);
        ++all;
        if (entry.contains("output")) {
            const std::string text = result.ok() ? *result : "FAULT " + result.fault().message;
            CHECK(text == entry["output"].get<std::string>());
            right += text == entry["output"].get<std::string>();
        } else {
            CHECK_FALSE(result.ok());
            if (result.ok()) return;
            const bool carried = !entry.contains("raises") ||
                                 result.fault().message.find(entry["raises"].get<std::string>()) !=
                                     std::string::npos;
            CAPTURE(result.fault().message);
            CHECK(carried);
            right += carried;
        }
    });
    std::cout << "chat template cases: renderings: " << right << " of " << all << "\n";
}

TEST_CASE("chat template cases: syntax") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    size_t right = 0;
    size_t all = 0;
    each_line(folder / "jinja_syntax_cases.jsonl", [&](const Json& entry) {
        const std::string source = entry["template"];
        CAPTURE(source);
        const auto result = render(source, entry["variables"]);
        const std::string text = result.ok() ? *result : "FAULT " + result.fault().message;
        if (!entry["jinja2_3.1.2"].is_string()) {
            CHECK_FALSE(result.ok());
            return;
        }
        ++all;
        CHECK(text == entry["jinja2_3.1.2"].get<std::string>());
        right += text == entry["jinja2_3.1.2"].get<std::string>();
    });
    std::cout << "chat template cases: syntax: " << right << " of " << all << "\n";
}

TEST_CASE("chat template cases: templates and messages of llama.cpp") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    size_t right = 0;
    size_t all = 0;
    each_line(folder / "llamacpp_template_cases.jsonl", [&](const Json& entry) {
        const std::string name = entry["name"];
        CAPTURE(name);
        const Json variables = {{"messages", entry["messages"]},
                                {"bos_token", entry["bos_token"]},
                                {"eos_token", entry["eos_token"]},
                                {"add_generation_prompt", true}};
        const auto result = render(entry["template"], variables);
        const std::string text = result.ok() ? *result : "FAULT " + result.fault().message;
        const Json& expected = entry["jinja2_3.1.2"];
        const bool same = expected.contains("output")
                              ? text == expected["output"].get<std::string>()
                              : !result.ok() && text.find(expected["raises"].get<std::string>()) !=
                                                    std::string::npos;
        CAPTURE(text);
        CHECK(same);
        ++all;
        right += same;
    });
    std::cout << "chat template cases: llama.cpp: " << right << " of " << all << "\n";
}

TEST_CASE("chat template cases: conversations of Mistral") {
    const auto folder = test::shared_data("chat");
    if (folder.empty()) return;
    size_t all = 0;
    each_line(folder / "mistral_common.jsonl", [&](const Json& entry) {
        const std::string model = entry["tokenizer"];
        const std::string name = entry["name"];
        CAPTURE(model);
        CAPTURE(name);
        const auto tokenizer = Tokenizer::load(test::shared_data("tokenizers") / model);
        REQUIRE(tokenizer);
        const auto format = model == "mistral-v1" ? MistralFormat::v1 : MistralFormat::v2;
        const auto conversation = read_conversation(entry["conversation"]);
        REQUIRE(conversation.ok());
        auto chat = render_mistral(*conversation, format);
        REQUIRE(chat.ok());
        CHECK(encode_chat(*tokenizer, *chat) == entry["ids"].get<std::vector<int32_t>>());
        ++all;
    });
    std::cout << "chat template cases: Mistral: " << all << " compared\n";
}

// Lines of {"template", "variables"} with "output" or "error" from scripts/fixtures/chat_fuzz.py.
TEST_CASE("chat template cases: lines from Jinja2") {
    const char* lines = std::getenv("NVLLM_CHAT_LINES");
    if (lines == nullptr) return;
    size_t all = 0;
    size_t different = 0;
    each_line(lines, [&](const Json& entry) {
        const auto result = render(entry["template"], entry["variables"]);
        ++all;
        const bool same = entry.contains("output")
                              ? result.ok() && *result == entry["output"].get<std::string>()
                              : !result.ok();
        if (same || ++different > 40) return;
        std::cout << entry["template"].dump() << "\n  ours   "
                  << (result.ok()
                          ? Json(*result).dump(-1, ' ', false, Json::error_handler_t::replace)
                          : "FAULT " + result.fault().message)
                  << "\n  theirs "
                  << (entry.contains("output") ? entry["output"].dump()
                                               : "ERROR " + entry["error"].dump())
                  << "\n";
    });
    std::cout << all << " lines compared, " << different << " differences\n";
    CHECK(different == 0);
}

}  // namespace
}  // namespace nvllm
