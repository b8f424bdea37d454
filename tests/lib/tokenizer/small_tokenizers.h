// Tokenizers small enough to be written down, for tests.
#pragma once

#include <memory>
#include <string>

#include "lib/tokenizer/byte_level.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::test {

// tokenizer.json with the given sections, each a JSON text; empty ones are left out.
inline std::string tokenizer_json(const std::string& model, const std::string& more = "") {
    return "{\"version\":\"1.0\",\"model\":" + model + (more.empty() ? "" : "," + more) + "}";
}

inline std::shared_ptr<const Tokenizer> tokenizer_of(const std::string& json) {
    return Tokenizer::load_bytes(json, "test.json");
}

// Byte-level BPE with all bytes, "th" "the" "Ġthe" "in" as merges, and two special tokens.
inline std::string byte_level_json() {
    std::string vocabulary;
    int id = 0;
    const auto add = [&](const std::string& token) {
        std::string quoted;
        for (const char c : token)
            quoted += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
        vocabulary += (id == 0 ? "" : ",") + ("\"" + quoted + "\":") + std::to_string(id);
        ++id;
    };
    for (int byte = 0; byte < 256; ++byte)
        add(std::string(byte_level_character(static_cast<uint8_t>(byte))));
    for (const char* token : {"th", "the", "\xC4\xA0the", "in"}) add(token);
    return tokenizer_json(
        "{\"type\":\"BPE\",\"vocab\":{" + vocabulary +
            "},\"merges\":[\"t h\",\"th e\",[\"\xC4\xA0\",\"the\"],\"i n\"]}",
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{"
        "\"type\":\"ByteLevel\"},"
        "\"added_tokens\":[{\"id\":260,\"content\":\"<|end|>\",\"special\":true,\"normalized\":"
        "false},"
        "{\"id\":261,\"content\":\"<|user|>\",\"special\":true,\"normalized\":false}]");
}

// SentencePiece-style BPE with byte fallback, as Llama's tokenizer.json is.
inline std::string byte_fallback_json() {
    std::string vocabulary = "\"<unk>\":0,\"<s>\":1,\"</s>\":2";
    int id = 3;
    for (int byte = 0; byte < 256; ++byte) {
        vocabulary += ",\"" + byte_token(static_cast<uint8_t>(byte)) + "\":" + std::to_string(id++);
    }
    for (const char* token : {"\xE2\x96\x81", "a", "b", "c", "ab",
                              "\xE2\x96\x81"
                              "ab"}) {
        vocabulary += ",\"" + std::string(token) + "\":" + std::to_string(id++);
    }
    return tokenizer_json(
        "{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,\"byte_fallback\":true,"
        "\"vocab\":{" +
            vocabulary + "},\"merges\":[\"a b\",\"\xE2\x96\x81 ab\"]}",
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
        "\"\xE2\x96\x81\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xE2\x96\x81\"}]},"
        "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
        "\"<s>\",\"type_id\":0}},"
        "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{"
        "\"id\":\"<s>\",\"ids\":[1],"
        "\"tokens\":[\"<s>\"]}}},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
        "\"String\":\"\xE2\x96\x81\"},"
        "\"content\":\" "
        "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \","
        "\"start\":1,\"stop\":0}]},"
        "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":true,\"normalized\":false},"
        "{\"id\":1,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"
        "{\"id\":2,\"content\":\"</s>\",\"special\":true,\"normalized\":false}]");
}

}  // namespace nvllm::test
