// The embedded page is the file, is small enough, and its policy names its script and style and
// nothing else.
#include "lib/server/page/chat_page.h"

#include <doctest/doctest.h>

#include "lib/base/file.h"

using namespace nvllm;

TEST_CASE("the embedded page is the file, byte for byte, and below 60 KB") {
    const std::string file = read_file(NVLLM_SOURCE_DIR "/lib/server/page/chat.html");
    CHECK(chat_page() == file);
    CHECK(chat_page().size() > 10'000);
    CHECK(chat_page().size() < 60'000);
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
