// Which characters the pre-tokenizer UnicodeScripts holds together.
#pragma once

namespace nvllm::unicode {

// Equal for characters of one script; Han, Hiragana and Katakana are one. 0 for the space and for
// characters that the tables of tokenizers do not have: they belong to the character before them.
int script_class(char32_t c);

}  // namespace nvllm::unicode
