// What a model's answers look like, and what that makes of a request: which parts of the text are
// told apart, and what the text is held to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/server/openai/generation_request.h"
#include "lib/server/openai/output_format_options.h"

namespace nvllm {
class InputProcessor;
}

namespace nvllm::server {

struct ModelOutput {
    OutputFormat format = {};  // without a name: not told apart
    bool shows_tools = true;   // the chat template tells the model of tools
    std::vector<std::string> special_tokens = {};
    std::string summary = {};  // what was found, for the log; empty: nothing
};

// As the options say; where they do not, by the model's chat template. Calls that it does not show
// are looked for as plain JSON. `tokenizer` may be null.
ModelOutput find_model_output(const OutputFormatOptions& options, const InputProcessor& input,
                              const Tokenizer* tokenizer);

// Sets what of a chat's answer is told apart and held to a grammar. A fault (bad_data) where the
// model's form cannot be held to what is asked for.
std::optional<Fault> set_output(const ModelOutput& model, GenerationRequest& request);

}  // namespace nvllm::server
