// One line each way; whatever is wrong with it is its own fault.
#include "lib/view/token_lines.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::bad_data, what); }

// The text of {"text": ...}; throws when the line is anything else.
std::string text_of_object(const std::string& line) {
    const Json object = parse_json(line, "this line");
    const auto text = object.is_object() ? object.find("text") : object.end();
    if (!object.is_object() || text == object.end() || !text->is_string()) {
        refuse("this line is not an object with a \"text\": {\"text\": \"...\"}");
    }
    return text->get<std::string>();
}

std::string text_of_line(const std::string& line, LineFormat format) {
    if (format == LineFormat::text) return line;
    if (format == LineFormat::jsonl) return text_of_object(line);
    if (!line.starts_with('{')) return line;
    try {
        return text_of_object(line);
    } catch (const Error&) {  // a text that begins with a brace
        return line;
    }
}

int32_t id_of(const Json& value, const Tokenizer& tokenizer) {
    if (!value.is_number_integer()) refuse(fmt::format("{} is not a token id", write_json(value)));
    // Numbers above the signed range compare as themselves only when read as unsigned.
    const bool in_range = value.is_number_unsigned()
                              ? value.get<uint64_t>() < static_cast<uint64_t>(INT32_MAX)
                              : false;
    const int32_t id = in_range ? value.get<int32_t>() : -1;
    if (id < 0 || !tokenizer.spelling(id, false)) {
        refuse(fmt::format("no token has the id {}; the vocabulary has ids from 0 to {}",
                           write_json(value), tokenizer.vocab_size() - 1));
    }
    return id;
}

std::vector<int32_t> ids_of_line(const std::string& line, const Tokenizer& tokenizer) {
    const Json document = parse_json(line, "this line");
    const Json* list = &document;
    for (const char* key : {"ids", "token_ids"}) {
        if (document.is_object() && document.contains(key)) list = &document.at(key);
    }
    if (!list->is_array()) refuse("this line has no token ids: {\"ids\": [1, 2]} or [1, 2]");
    std::vector<int32_t> ids;
    for (const Json& value : *list) ids.push_back(id_of(value, tokenizer));
    return ids;
}

template <typename Response>
LineAnswer answered(Response&& answer) {
    try {
        return {answer(), std::nullopt};
    } catch (const Error& error) {
        return fault_answer({error.kind(), error.what()});
    }
}

}  // namespace

LineAnswer encode_line(const Tokenizer& tokenizer, const std::string& line,
                       const TokenLineOptions& options) {
    return answered([&] {
        EncodeOptions encoding;
        encoding.add_special_tokens = options.add_special_tokens;
        encoding.recognise_special_tokens = options.parse_special;
        const auto ids = tokenizer.encode(text_of_line(line, options.format), encoding);
        std::string tokens;
        for (const int32_t id : ids) {
            if (!tokens.empty()) tokens += ',';
            tokens += json_quoted(tokenizer.token_text(id));
        }
        return fmt::format(R"({{"ids":[{}],"tokens":[{}]}})", fmt::join(ids, ","), tokens);
    });
}

LineAnswer decode_line(const Tokenizer& tokenizer, const std::string& line,
                       const TokenLineOptions& options) {
    return answered([&] {
        const auto ids = ids_of_line(line, tokenizer);
        return "{\"text\":" + json_quoted(tokenizer.decode(ids, !options.keep_special)) + "}";
    });
}

}  // namespace nvllm::view
