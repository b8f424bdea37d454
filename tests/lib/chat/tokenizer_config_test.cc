// The files beside tokenizer.json: added tokens, special tokens, options of classes, keys that are
// not used. Expectations are those of transformers 5.24.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/chat/chat_message.h"
#include "lib/chat/chat_template.h"
#include "lib/chat/conversation_renderer.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/tokenizer/small_tokenizers.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using Ids = std::vector<int32_t>;
using Json = nlohmann::ordered_json;

// A folder with the small byte-level tokenizer: 256 bytes, 4 merges, <|end|> 260, <|user|> 261.
struct Model {
    test::TemporaryFolder folder;

    Model() { folder.write("tokenizer.json", test::byte_level_json()); }
    explicit Model(const std::string& config) : Model() {
        folder.write("tokenizer_config.json", config);
    }
    std::shared_ptr<const Tokenizer> load() const { return Tokenizer::load(folder.path()); }
};

std::shared_ptr<const Tokenizer> with_config(const std::string& config) {
    return Model(config).load();
}

Ids encode(const Tokenizer& tokenizer, std::string_view text) {
    EncodeOptions options;
    options.add_special_tokens = false;
    return tokenizer.encode(text, options);
}

bool has_note(const Tokenizer& tokenizer, std::string_view part) {
    for (const std::string& note : tokenizer.notes()) {
        if (note.find(part) != std::string::npos) return true;
    }
    return false;
}

std::string render(const std::shared_ptr<const Tokenizer>& tokenizer) {
    const ConversationRenderer renderer(tokenizer, "", "");
    const auto chat = renderer.render(Conversation{});
    return chat ? chat->text : "fault: " + chat.fault().message;
}

TEST_CASE("tokenizer config: tokens that only added_tokens_decoder defines count") {
    // Ids follow the order of the file's ids, not the ids themselves.
    const auto tokenizer = with_config(R"({"added_tokens_decoder": {
        "900": {"content": "<late>", "special": false},
        "262": {"content": "<tool>", "special": true}}})");
    CHECK(encode(*tokenizer, "in<tool>in<late>") == Ids{259, 262, 259, 263});
    CHECK(tokenizer->decode(Ids{262, 263, 259}, false) == "<tool><late>in");
    CHECK(tokenizer->decode(Ids{262, 263, 259}, true) == "<late>in");
    CHECK(tokenizer->vocab_size() == 264);
    CHECK(has_note(*tokenizer, "\"<late>\": has id 263, not 900"));
}

TEST_CASE("tokenizer config: the decoder's flags replace those of tokenizer.json") {
    const auto tokenizer = with_config(R"({"added_tokens_decoder": {
        "260": {"content": "<|end|>", "special": true, "lstrip": true, "rstrip": true}}})");
    CHECK(encode(*tokenizer, "in <|end|> in") == Ids{259, 260, 259});
    CHECK(encode(*with_config("{}"), "in <|end|>in") == Ids{259, 32, 260, 259});
    // What is special in tokenizer.json stays so.
    const auto plain = with_config(R"({"added_tokens_decoder": {
        "260": {"content": "<|end|>", "special": false}}})");
    CHECK(plain->decode(Ids{259, 260}, true) == "in");
    // A token that a name stands for is special.
    const auto named = with_config(R"({"pad_token": "<p>", "added_tokens_decoder": {
        "262": {"content": "<p>", "special": false}}})");
    CHECK(named->decode(Ids{259, 262}, true) == "in");
}

TEST_CASE("tokenizer config: added_tokens.json counts where there is no decoder") {
    Model model(R"({"pad_token": "<pad>"})");
    model.folder.write("added_tokens.json", R"({"<b>": 263, "<pad>": 262, "<x>": 260})");
    const auto tokenizer = model.load();
    // tokenizer.json has a token of its own at 260: <x> is none.
    CHECK(encode(*tokenizer, "<pad><b>") == Ids{262, 263});
    CHECK(encode(*tokenizer, "<x>").size() == 3);
    CHECK(tokenizer->decode(Ids{262, 263}, true) == "<b>");
    model.folder.write("tokenizer_config.json", R"({"added_tokens_decoder": {}})");
    CHECK(encode(*model.load(), "<b>").size() == 3);
}

TEST_CASE("tokenizer config: special tokens that are named are added and found") {
    const auto tokenizer = with_config(
        R"({"pad_token": "<pad>", "image_token": "<img>", "eos_token": "<|end|>",
            "additional_special_tokens": ["<a>", {"content": "<b>", "lstrip": true}]})");
    CHECK(encode(*tokenizer, "<pad><img><a> <b>") == Ids{262, 263, 264, 265});
    CHECK(tokenizer->decode(Ids{262, 263, 264, 265}, true).empty());
    // Tokens of the vocabulary become special by a name.
    const auto known = with_config(R"({"eos_token": "the"})");
    CHECK(known->eos_id() == 257);
    CHECK(known->decode(Ids{257, 259}, true) == "in");
}

TEST_CASE("tokenizer config: names of several files and kinds, in transformers' order") {
    // An object of names leaves the older list in force.
    const auto both = with_config(R"({"extra_special_tokens": {"audio_token": "<au>"},
                                      "additional_special_tokens": ["<a>"]})");
    CHECK(encode(*both, "<au><a>") == Ids{262, 263});
    const auto list =
        with_config(R"({"extra_special_tokens": ["<e>"], "additional_special_tokens": ["<a>"]})");
    CHECK(encode(*list, "<e>") == Ids{262});
    CHECK(encode(*list, "<a>").size() == 3);
    // Unusual names of the map come before tokenizer_config.json's, which win.
    Model model(R"({"boi_token": "<boi>", "image_token": "<i>"})");
    model.folder.write("special_tokens_map.json",
                       R"({"audio_token": "<au>", "image_token": "<other>"})");
    CHECK(encode(*model.load(), "<au><i><boi>") == Ids{262, 263, 264});
    // The flags of the last name count.
    Model twice(R"({"unk_token": "<x>"})");
    twice.folder.write("special_tokens_map.json",
                       R"({"image_token": {"content": "<x>", "lstrip": true}})");
    CHECK(encode(*twice.load(), "in <x>") == Ids{259, 262});
}

TEST_CASE("tokenizer config: special_tokens_map.json wins, but not over a decoder") {
    Model model(R"({"eos_token": "<|end|>", "pad_token": "<|end|>",
                    "chat_template": "{{ eos_token }}{{ pad_token }}"})");
    model.folder.write("special_tokens_map.json", R"({"eos_token": {"content": "<|user|>"}})");
    CHECK(model.load()->eos_text() == "<|user|>");
    CHECK(render(model.load()) == "<|user|><|end|>");
    model.folder.write("tokenizer_config.json",
                       R"({"eos_token": "<|end|>", "added_tokens_decoder": {}})");
    CHECK(model.load()->eos_text() == "<|end|>");
}

TEST_CASE("tokenizer config: templates see every special token that has a name") {
    const std::string show =
        R"("chat_template": "{% for t in [bos_token, unk_token, sep_token, mask_token, image_token, boi_token] %}[{{ t }}]{% endfor %}{{ cls_token is defined }}")";
    CHECK(render(with_config(
              R"({"bos_token": "<s>", "unk_token": "<u>", "sep_token": {"content": "<sep>"},
                  "mask_token": "<m>", "cls_token": null, "image_token": "<i>",
                  "extra_special_tokens": {"boi_token": "<boi>"}, )" +
              show + "}")) == "[<s>][<u>][<sep>][<m>][<i>][<boi>]False");
    CHECK(render(with_config(R"({"model_specific_special_tokens": {"image_token": "<i>"}, )" +
                             show + "}")) == "[][][][][<i>][]False");
    // A class's own tokens, for names that no file has.
    CHECK(render(with_config(R"({"tokenizer_class": "LlamaTokenizerFast", "unk_token": null, )" +
                             show + "}")) == "[<s>][][][][][]False");
}

TEST_CASE("tokenizer config: templates as text, object, list and files") {
    CHECK(render(with_config(R"({"chat_template": {"default": "D", "tool_use": "T"}})")) == "D");
    CHECK(with_config(R"({"chat_template": {"default": "D", "tool_use": "T"}})")
              ->chat_template("tool_use") == "T");
    CHECK(render(with_config(R"({"chat_template": [{"name": "default", "template": "L"}]})")) ==
          "L");
    Model model(R"({"chat_template": {"default": "D", "tool_use": "T"}})");
    model.folder.write("chat_template.jinja", "F");
    CHECK(render(model.load()) == "F");
    CHECK(model.load()->chat_template("tool_use").empty());
}

TEST_CASE("tokenizer config: a template that is none stops no plain text") {
    for (const char* value : {"7", "[7]", R"([{"name": "default"}])", R"({"default": 7})"}) {
        CAPTURE(value);
        const auto tokenizer = with_config(std::string(R"({"chat_template": )") + value + "}");
        CHECK(encode(*tokenizer, "in") == Ids{259});
        CHECK(has_note(*tokenizer, "chat_template"));
        CHECK(render(tokenizer).starts_with("fault: this model has no chat template"));
    }
    Model model;
    model.folder.write("chat_template.json", "{");
    CHECK(encode(*model.load(), "in") == Ids{259});
    CHECK(has_note(*model.load(), "chat_template.json"));
}

TEST_CASE("tokenizer config: add_prefix_space of a class over bytes") {
    const Ids spaced = {258, 259}, plain = {257, 259};
    CHECK(encode(*with_config(R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})"),
                 "thein") == spaced);
    CHECK(encode(*with_config(R"({"tokenizer_class": "GPT2Tokenizer"})"), "thein") == plain);
    CHECK(encode(*with_config(R"({"add_prefix_space": true})"), "thein") == plain);
    CHECK(encode(*with_config(
                     R"({"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": true})"),
                 "thein") == plain);
    // The class may also be config.json's, or follow from its type of model.
    Model model(R"({"add_prefix_space": true})");
    model.folder.write("config.json", R"({"model_type": "gpt2"})");
    CHECK(encode(*model.load(), "thein") == spaced);
    model.folder.write("config.json", R"({"tokenizer_class": "GPT2Tokenizer"})");
    CHECK(encode(*model.load(), "thein") == spaced);
}

TEST_CASE("tokenizer config: add_prefix_space of Llama's class") {
    Model model;
    model.folder.write("tokenizer.json", test::byte_fallback_json());
    const Ids marked = encode(*model.load(), "ab");
    model.folder.write("tokenizer_config.json",
                       R"({"tokenizer_class": "LlamaTokenizer", "add_prefix_space": false})");
    const Ids bare = encode(*model.load(), "ab");
    CHECK(marked == Ids{264});
    CHECK(bare == Ids{263});
    CHECK(model.load()->decode(Ids{264}, false) == " ab");
}

TEST_CASE("tokenizer config: options of BERT's class") {
    Model model;
    model.folder.write(
        "tokenizer.json",
        test::tokenizer_json(
            R"({"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"ab":1,"AB":2,"É":3,"é":4,"e":5}})",
            R"("normalizer":{"type":"BertNormalizer","lowercase":true,"strip_accents":null},"pre_tokenizer":{"type":"BertPreTokenizer"})"));
    const auto ids = [&](const std::string& config) {
        model.folder.write("tokenizer_config.json", config);
        return encode(*model.load(), "AB É");
    };
    CHECK(ids("{}") == Ids{1, 5});
    CHECK(ids(R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false})") == Ids{2, 3});
    CHECK(ids(R"({"tokenizer_class": "BertTokenizer", "strip_accents": false})") == Ids{1, 4});
    CHECK(ids(R"({"do_lower_case": false})") == Ids{1, 5});
    CHECK(ids(R"({"tokenizer_class": "DistilBertTokenizerFast"})") == Ids{1, 5});
    CHECK(model.load()->named_tokens().size() == 5);
}

TEST_CASE("tokenizer config: split_special_tokens") {
    CHECK(encode(*with_config(R"({"split_special_tokens": true})"), "<|end|>").size() == 7);
}

TEST_CASE("tokenizer config: every key that transformers knows is used, harmless or named") {
    // What changes neither ids nor text, whatever the value; each was looked up in transformers.
    const std::set<std::string> kHarmlessKeys = {
        "backend", "chat_control_tokens", "errors", "files_loaded", "init_inputs", "legacy",
        "local_files_only", "max_len", "max_length", "merges_file", "model_input_names",
        "model_max_length", "name_or_path", "pad_to_multiple_of", "pad_token_type_id", "padding",
        "padding_side", "processor_class", "response_schema", "response_template", "stride",
        // Read only as texts.
        "tokenizer_class", "tokenizer_file", "trim_offsets", "truncation", "truncation_side",
        "truncation_strategy", "use_default_system_prompt", "verbose", "vocab_file"};
    const Json keys = Json::parse(read_file(test::source_path("tests/fixtures/known_keys.json")));
    REQUIRE(keys["tokenizer_config"].size() > 60);
    for (const std::string key : keys["tokenizer_config"]) {
        CAPTURE(key);
        // An object that is of no key's type.
        bool is_used_or_named = false;
        try {
            is_used_or_named = has_note(*with_config(Json{{key, {{"a", 1}}}}.dump()), key);
        } catch (const Error& error) {
            is_used_or_named = std::string(error.what()).find(key) != std::string::npos;
        }
        const bool reads_objects =
            key.find("special_tokens") != std::string::npos && key != "split_special_tokens";
        if (!reads_objects) CHECK(is_used_or_named == !kHarmlessKeys.contains(key));
    }
    const auto odd = with_config(R"({"odd_key": 1, "other": null, "auto_map": {}})");
    CHECK(has_note(*odd, "tokenizer_config.json: not used: auto_map, odd_key"));
    CHECK(with_config("{}")->notes().empty());
    CHECK(with_config(R"({"extra_special_tokens": {}, "additional_special_tokens": []})")
              ->notes()
              .empty());
}

}  // namespace
}  // namespace nvllm
