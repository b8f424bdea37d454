// What a reference means beside the address of the document that it stands in (RFC 3986, 5.2).
#pragma once

#include <string>
#include <string_view>

namespace nvllm {

// `base`: an address, or empty; its fragment does not count.
std::string resolved_uri(std::string_view base, std::string_view reference);

}  // namespace nvllm
