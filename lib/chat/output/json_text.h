// JSON inside of generated text: where a value ends, and the exact text of its members.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/text_reader.h"

namespace nvllm::output {

// Finds the end of an object or a list, byte by byte. Only its brackets, its strings and which
// bytes may stand between them are looked at: is_json() decides over the rest.
class JsonScanner {
  public:
    enum class State { more, done, broken };
    State feed(char c);
    // After what was fed: how many are open, and whether a string is.
    size_t depth() const { return open_.size(); }
    bool in_string() const { return in_string_; }

  private:
    State feed_string(char c);
    State close(char open);
    std::string open_;
    bool in_string_ = false;
    bool escaped_ = false;
};

// Whether `text` is a JSON value as RFC 8259 has it, of a bounded depth.
bool is_json(std::string_view text);

struct JsonMember {
    std::string key;
    std::string_view value;  // the exact text
};
// The members of an object, and the elements of a list (without keys). REQUIRES: is_json(text).
// Empty for other values.
std::vector<JsonMember> json_members(std::string_view text);

// The text of a JSON string; nothing where it is another value. REQUIRES: is_json(text).
std::optional<std::string> json_string(std::string_view text);

}  // namespace nvllm::output
