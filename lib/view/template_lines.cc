// One line is one rendering; whatever is wrong with it is its own fault.
#include "lib/view/template_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"

namespace nvllm::view {
namespace {

Result<RenderedChat> render(const ConversationRenderer& conversations, const std::string& line,
                            const RenderOptions& options) {
    try {
        const nlohmann::ordered_json context = parse_ordered_json(line, "this line");
        if (!context.is_object()) {
            return Fault{ErrorKind::bad_data,
                         "this line is not an object: {\"messages\": [...], ...}"};
        }
        return conversations.render(context, options);
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace

LineAnswer render_line(const ConversationRenderer& conversations, const std::string& line,
                       const RenderOptions& options) {
    const auto rendered = render(conversations, line, options);
    if (!rendered) return fault_answer(rendered.fault());
    return {"{\"text\":" + json_quoted(rendered->text) + "}", std::nullopt};
}

std::string template_named(const Tokenizer& tokenizer, const std::string& name) {
    const std::string source = tokenizer.chat_template(name.empty() ? "default" : name);
    if (!source.empty()) return source;
    const auto names = tokenizer.chat_template_names();
    throw Error(ErrorKind::bad_data,
                fmt::format("this model has no chat template{}; {}",
                            name.empty() ? "" : fmt::format(" named '{}'", name),
                            names.empty() ? "give one with --template FILE"
                                          : fmt::format("it has: {}", fmt::join(names, ", "))));
}

std::optional<std::tm> parse_time(const std::string& text) {
    std::tm time{};
    const char* end = ::strptime(text.c_str(), "%Y-%m-%d %H:%M:%S", &time);
    if (end == nullptr) {
        time = {};
        end = ::strptime(text.c_str(), "%Y-%m-%d", &time);
    }
    if (end == nullptr || *end != '\0') return std::nullopt;
    // Fills in the day of the week; a 31st of February comes back as another day.
    std::tm filled = time;
    ::timegm(&filled);
    if (filled.tm_mday != time.tm_mday || filled.tm_mon != time.tm_mon) return std::nullopt;
    return filled;
}

}  // namespace nvllm::view
