// The classes of a sequence classification model, and what makes scores of its values.
#pragma once

#include <string>
#include <vector>

#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {

struct LabelConfig {
    std::vector<std::string> labels;  // at least one
    LabelFunction function = LabelFunction::none;
};

// From id2label, or num_labels, of which transformers has two where the file says nothing. The
// function is what problem_type says, else the one that sentence-transformers wrote down, else
// sigmoid for one class and softmax for several, as vLLM chooses. Throws bad_data for a function
// that is not built.
LabelConfig read_label_config(const ConfigFields& fields);

}  // namespace nvllm
