// The policy is made from the digests that were taken when the page was embedded.
#include "lib/server/page/chat_page.h"

namespace nvllm {

extern const std::string_view chat_page_html, chat_page_html_script_sha256,
    chat_page_html_style_sha256;

std::string_view chat_page() { return chat_page_html; }

const std::string& chat_page_policy() {
    static const std::string policy =
        "default-src 'none'; script-src 'sha256-" + std::string(chat_page_html_script_sha256) +
        "'; style-src 'sha256-" + std::string(chat_page_html_style_sha256) +
        "'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'";
    return policy;
}

}  // namespace nvllm
