// The chat page as the server sends it: its bytes, and the policy under which it may run.
#pragma once

#include <string>
#include <string_view>

namespace nvllm {

// The document, `chat.html` with the files that it includes; text/html in UTF-8. Lives as long as
// the program.
std::string_view chat_page();

// The value of Content-Security-Policy to send with it: its own script and style by their digests,
// requests to its own origin, images from data: addresses, and nothing else.
const std::string& chat_page_policy();

}  // namespace nvllm
