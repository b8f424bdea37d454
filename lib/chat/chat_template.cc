// One rendering: variables in, text and the marks on it out, failures as faults.
#include "lib/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/jinja/interpreter.h"
#include "lib/jinja/json_value.h"
#include "lib/jinja/syntax.h"
#include "lib/jinja/template_time.h"

namespace nvllm {

struct ChatTemplate::Syntax {
    chat::Block block;
};

namespace {

uint64_t bytes_of_texts(const nlohmann::ordered_json& value) {
    if (value.is_string()) return value.get_ref<const std::string&>().size();
    uint64_t bytes = 0;
    if (value.is_structured()) {
        for (const nlohmann::ordered_json& element : value) bytes += bytes_of_texts(element);
    }
    return bytes;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source)
    : source_(std::move(source)),
      syntax_(std::make_unique<const Syntax>(Syntax{chat::parse_template(source_)})) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Result<RenderedChat> ChatTemplate::render(const nlohmann::ordered_json& variables,
                                          const RenderOptions& options) const {
    if (!variables.is_object())
        return Fault{ErrorKind::bad_data, "chat template: the variables are not an object"};
    const Result<std::tm> now = options.now ? Result<std::tm>(*options.now) : template_now();
    if (!now) return now.fault();
    chat::Budget budget;
    const uint64_t input_bytes = bytes_of_texts(variables);
    budget.steps = options.max_steps + options.steps_for_input * input_bytes;
    budget.produced_bytes = options.max_produced_bytes + options.produced_for_input * input_bytes;
    budget.output_bytes = options.max_output_bytes + options.output_for_input * input_bytes;
    chat::Interpreter interpreter(budget, *now);
    try {
        for (const auto& [name, value] : variables.items()) {
            interpreter.set_global(name, chat::value_of_json(value, !name.ends_with("_token")));
        }
        const chat::TrackedText text = interpreter.run(syntax_->block);
        return RenderedChat{text.bytes(), text.marks()};
    } catch (const chat::TemplateFailure& failure) {
        return Fault{
            ErrorKind::bad_data,
            "chat template, line " + std::to_string(interpreter.line()) + ": " + failure.message};
    }
}

nlohmann::ordered_json with_template_defaults(const nlohmann::ordered_json& variables,
                                              const Tokenizer& tokenizer) {
    nlohmann::ordered_json all = variables;
    for (const auto& [name, text] : tokenizer.named_tokens()) {
        if (!all.contains(name)) all[name] = text;
    }
    if (!all.contains("add_generation_prompt")) all["add_generation_prompt"] = true;
    return all;
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat,
                                 bool allow_special_in_messages) {
    EncodeOptions options;
    options.add_special_tokens = false;
    if (!allow_special_in_messages) options.plain_text = chat.from_messages;
    return tokenizer.encode(chat.text, options);
}

}  // namespace nvllm
