// The embedded page is the file with its parts, is small enough, and its policy names its script
// and style and nothing else.
#include "lib/server/page/chat_page.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "lib/base/file.h"

using namespace nvllm;

TEST_CASE("the embedded page is the file with its parts, byte for byte, and below 150 KB") {
    const std::filesystem::path folder = NVLLM_SOURCE_DIR "/lib/server/page";
    std::string expected;
    std::istringstream lines(read_file(folder / "chat.html"));
    for (std::string line; std::getline(lines, line);) {
        const bool is_part = line.starts_with("@include ");
        expected += is_part ? read_file(folder / line.substr(9)) : line + "\n";
    }
    CHECK(chat_page() == expected);
    CHECK(chat_page().size() > 10'000);
    CHECK(chat_page().size() < 150'000);
}

TEST_CASE("the policy allows the page's own script and style by digest, and no other source") {
    const std::string& policy = chat_page_policy();
    for (const char* directive :
         {"default-src 'none'; ", "script-src 'sha256-", "style-src 'sha256-",
          "connect-src 'self'; ", "img-src data:; ", "base-uri 'none'; ", "form-action 'none'; ",
          "frame-ancestors 'none'; ", "require-trusted-types-for 'script'; "}) {
        CHECK_MESSAGE(policy.find(directive) != std::string::npos, directive);
    }
    // A digest is 43 letters of base64 and one "=".
    for (const std::string kind : {"script-src 'sha256-", "style-src 'sha256-"}) {
        const size_t begin = policy.find(kind) + kind.size();
        CHECK(policy.substr(begin + 43, 3) == "=';");
    }
    CHECK(policy.find("unsafe") == std::string::npos);
    CHECK(policy.find('*') == std::string::npos);
}
