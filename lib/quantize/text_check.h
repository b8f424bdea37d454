// Telling text from files of other formats, by how they begin.
#pragma once

#include <string>
#include <string_view>

namespace nvllm::quantize {

// Throws bad_data that names the format and what to do for what is no text in UTF-8 or ASCII: known
// binary formats, and anything that holds a zero byte. Single bytes that are no UTF-8 pass: old
// texts have them.
void refuse_other_than_text(std::string_view content, const std::string& name);

}  // namespace nvllm::quantize
