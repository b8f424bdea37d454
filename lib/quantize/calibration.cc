// Reading texts, cutting them into samples, shuffling by a seed.
#include "lib/quantize/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/random.h"
#include "lib/chat/chat_message.h"
#include "lib/quantize/text_check.h"

namespace nvllm {
extern const std::string_view calibration_text_jsonl;  // cmake/embed.cmake
}

namespace nvllm::quantize {
namespace {

namespace fs = std::filesystem;

struct Reader {
    const CalibrationOptions& options;
    const ConversationRenderer& renderer;
    std::vector<CalibrationText> texts;

    [[noreturn]] static void refuse(const std::string& place, const std::string& what) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {}", place, what));
    }

    static std::string text_of(const nlohmann::ordered_json& value) {
        return value.is_string() ? value.get<std::string>() : write_json(value);
    }

    // "{field}" in the format becomes the object's field; "{{" and "}}" are braces.
    std::string formatted(const nlohmann::ordered_json& object, const std::string& place) const {
        std::string text;
        const std::string& format = options.format;
        for (size_t i = 0; i < format.size(); ++i) {
            const bool doubled = i + 1 < format.size() && format[i + 1] == format[i];
            if ((format[i] == '{' || format[i] == '}') && doubled) {
                text += format[i++];
            } else if (format[i] == '{') {
                const size_t end = format.find('}', i);
                if (end == std::string::npos) {
                    throw Error(ErrorKind::usage,
                                "--calibration-format: a { without }; {{ is a brace: " + format);
                }
                const std::string name = format.substr(i + 1, end - i - 1);
                if (!object.contains(name)) refuse(place, fmt::format("has no field \"{}\"", name));
                text += text_of(object.at(name));
                i = end;
            } else {
                text += format[i];
            }
        }
        return text;
    }

    // Models without a template get roles and contents as plain lines.
    CalibrationText rendered(const nlohmann::ordered_json& messages,
                             const std::string& place) const {
        auto conversation =
            read_conversation({{"messages", messages}, {"add_generation_prompt", false}});
        if (!conversation) refuse(place, conversation.fault().message);
        if (renderer.can_render()) {
            Result<RenderedChat> chat = renderer.render(*conversation);
            if (!chat) refuse(place, chat.fault().message);
            return {chat->text, true};
        }
        std::string text;
        for (const ChatMessage& message : conversation->messages) {
            text += fmt::format("{}: {}\n", message.role, message.text());
        }
        return {text};
    }

    CalibrationText text_of_line(const nlohmann::ordered_json& object,
                                 const std::string& place) const {
        if (!object.is_object()) refuse(place, "is no JSON object");
        if (!options.format.empty()) return {formatted(object, place)};
        if (object.contains("messages")) {
            return rendered(object["messages"], place);
        }
        if (object.contains("text")) return {text_of(object["text"])};
        refuse(place,
               "has neither \"text\" nor \"messages\"; --calibration-format says how an "
               "object becomes text");
    }

    void read_lines(std::string_view content, const std::string& name) {
        size_t number = 0;
        while (!content.empty()) {
            const size_t end = std::min(content.find('\n'), content.size());
            const std::string_view line = content.substr(0, end);
            content.remove_prefix(std::min(end + 1, content.size()));
            ++number;
            if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
            const std::string place = fmt::format("{}:{}", name, number);
            texts.push_back(text_of_line(parse_ordered_json(line, place), place));
        }
    }

    // A list of objects or of texts.
    void read_list(const nlohmann::ordered_json& list, const std::string& name) {
        for (size_t i = 0; i < list.size(); ++i) {
            const std::string place = fmt::format("{}: item {}", name, i + 1);
            texts.push_back(list[i].is_string() && options.format.empty()
                                ? CalibrationText{list[i].get<std::string>()}
                                : text_of_line(list[i], place));
        }
    }

    // One list, one object, or an object a line: all of them are called .json.
    void read_json(std::string_view content, const std::string& name) {
        const auto whole = nlohmann::ordered_json::parse(content, nullptr, false);
        if (whole.is_array()) return read_list(parse_ordered_json(content, name), name);
        if (whole.is_object()) {
            texts.push_back(text_of_line(parse_ordered_json(content, name), name + ":1"));
            return;
        }
        read_lines(content, name);
    }

    void read_content(std::string content, const std::string& name, bool is_json) {
        refuse_other_than_text(content, name);
        if (is_json) {
            read_json(content, name);
        } else {
            texts.push_back({std::move(content)});
        }
    }

    static bool is_json(const fs::path& file) {
        const std::string ending = file.extension().string();
        return ending == ".jsonl" || ending == ".ndjson" || ending == ".json";
    }

    void read_named(const std::string& name) {
        if (name == "-") {
            std::string content(std::istreambuf_iterator<char>(std::cin), {});
            const bool is_object = content.starts_with('{') || content.starts_with("[{");
            read_content(std::move(content), "standard input", is_object);
            return;
        }
        std::error_code ignored;
        if (!fs::is_directory(name, ignored)) {
            read_content(read_file(name), name, is_json(name));
            return;
        }
        std::vector<fs::path> files;
        for (const fs::directory_entry& entry : fs::directory_iterator(name)) {
            if (entry.is_regular_file()) files.push_back(entry.path());
        }
        std::sort(files.begin(), files.end());
        for (const fs::path& file : files) read_named(file.string());
    }
};

// A permutation that depends on the seed alone (Fisher and Yates).
void shuffle(std::vector<std::vector<int32_t>>& lists, uint64_t seed) {
    for (size_t last = lists.size(); last > 1; --last) {
        const auto words = philox({static_cast<uint32_t>(last), 0, 0, 0}, philox_key(seed));
        const uint64_t draw = (uint64_t{words[0]} << 32) | words[1];
        std::swap(lists[last - 1], lists[static_cast<size_t>(draw % last)]);
    }
}

// One after the other, cut where a sample is full; what is left over is a shorter one.
std::vector<std::vector<int32_t>> joined(const std::vector<std::vector<int32_t>>& texts,
                                         size_t length) {
    std::vector<std::vector<int32_t>> samples(1);
    for (const std::vector<int32_t>& text : texts) {
        for (const int32_t token : text) {
            if (samples.back().size() == length) samples.emplace_back();
            samples.back().push_back(token);
        }
    }
    return samples;
}

std::string description_of(const CalibrationOptions& options, const CalibrationSet& set) {
    const std::string source = options.files.empty()
                                   ? "the bundled text"
                                   : fmt::format("{}", fmt::join(options.files, ", "));
    return fmt::format("{}: {} sample{}, {} tokens", source, set.samples.size(),
                       set.samples.size() == 1 ? "" : "s", set.num_tokens);
}

}  // namespace

std::string_view bundled_calibration_text() { return calibration_text_jsonl; }

std::vector<CalibrationText> read_calibration_texts(const CalibrationOptions& options,
                                                    const ConversationRenderer& renderer) {
    Reader reader{options, renderer, {}};
    if (options.files.empty()) {
        reader.read_lines(calibration_text_jsonl, "the bundled calibration text");
    }
    for (const std::string& name : options.files) reader.read_named(name);
    return std::move(reader.texts);
}

CalibrationSet make_calibration_set(const CalibrationOptions& options, const Tokenizer& tokenizer,
                                    const std::string& model_type) {
    // Borrowed: the renderer is gone before this function returns.
    const std::shared_ptr<const Tokenizer> shared(std::shared_ptr<void>(), &tokenizer);
    const ConversationRenderer renderer(shared, model_type, "");
    std::vector<std::vector<int32_t>> texts;
    for (const CalibrationText& text : read_calibration_texts(options, renderer)) {
        texts.push_back(tokenizer.encode(text.text, {.add_special_tokens = !text.is_rendered}));
    }
    if (options.shuffles) shuffle(texts, options.seed);
    const auto length = static_cast<size_t>(options.max_seq_length);
    CalibrationSet set;
    set.samples = options.concatenates ? joined(texts, length) : std::move(texts);
    for (std::vector<int32_t>& sample : set.samples) {
        sample.resize(std::min(sample.size(), length));
    }
    std::erase_if(set.samples, [](const auto& sample) { return sample.size() < 2; });
    if (set.samples.size() > static_cast<size_t>(options.num_samples)) {
        set.samples.resize(static_cast<size_t>(options.num_samples));
    }
    for (const std::vector<int32_t>& sample : set.samples) {
        set.num_tokens += static_cast<int64_t>(sample.size());
        set.longest = std::max(set.longest, static_cast<int64_t>(sample.size()));
    }
    set.description = description_of(options, set);
    if (set.num_tokens < kMinCalibrationTokens) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("too little calibration text: {}, but at least {} are needed; add "
                                "text of {} tokens or more, or leave --calibration out for the "
                                "bundled text",
                                set.description, kMinCalibrationTokens,
                                kMinCalibrationTokens - set.num_tokens));
    }
    return set;
}

}  // namespace nvllm::quantize
