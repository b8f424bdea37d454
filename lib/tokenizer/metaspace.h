// The options of Metaspace, which both its pre-tokenizer and its decoder have.
#pragma once

#include <string>

#include "lib/tokenizer/json_view.h"

namespace nvllm {

enum class PrependScheme { always, first, never };

struct MetaspaceOptions {
    std::string replacement = "\xE2\x96\x81";  // the character that stands for a space
    PrependScheme prepend = PrependScheme::always;
    bool split = true;
};

// Throws Error{bad_data}.
MetaspaceOptions load_metaspace(const JsonView& section);

}  // namespace nvllm
