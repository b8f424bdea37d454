// Just enough of the protocol buffer wire format, with every length checked against what is there.
#include "lib/tokenizer/sentencepiece_model.h"

#include <cstring>

#include "kernels/error.h"
#include "lib/base/utf8.h"

namespace nvllm {
namespace {

// One field of a message.
struct Field {
    uint32_t number = 0;
    uint32_t wire = 0;       // 0 varint, 1 eight bytes, 2 bytes, 5 four bytes
    uint64_t value = 0;      // of wire 0, 1 and 5
    std::string_view bytes;  // of wire 2

    bool flag() const { return value != 0; }
    float real() const {
        const auto bits = static_cast<uint32_t>(value);
        float result;
        std::memcpy(&result, &bits, 4);
        return result;
    }
};

class Reader {
  public:
    Reader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

    bool next(Field& field) {
        if (at_ == bytes_.size()) return false;
        const uint64_t tag = varint();
        field = {static_cast<uint32_t>(tag >> 3), static_cast<uint32_t>(tag & 7), 0, {}};
        if (field.number == 0 || (tag >> 3) > 0x1FFFFFFF) fail("a field has no number");
        switch (field.wire) {
            case 0:
                field.value = varint();
                break;
            case 1:
                field.value = fixed(8);
                break;
            case 2:
                field.bytes = take(varint());
                break;
            case 5:
                field.value = fixed(4);
                break;
            default:
                fail("a field has an unknown wire type");
        }
        return true;
    }

    [[noreturn]] void fail(const std::string& why) const {
        throw Error(ErrorKind::bad_data, name_ + ": not a SentencePiece model: " + why);
    }

  private:
    uint64_t varint() {
        uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at_ == bytes_.size()) fail("the file ends within a number");
            const auto byte = static_cast<unsigned char>(bytes_[at_++]);
            value |= uint64_t{byte & 0x7Fu} << shift;
            if (byte < 0x80) return value;
        }
        fail("a number is too long");
    }
    std::string_view take(uint64_t length) {
        if (length > bytes_.size() - at_) fail("a field is longer than the file");
        const std::string_view taken = bytes_.substr(at_, length);
        at_ += length;
        return taken;
    }
    uint64_t fixed(size_t length) {
        const std::string_view raw = take(length);
        uint64_t value = 0;
        for (size_t i = length; i-- > 0;) value = (value << 8) | static_cast<unsigned char>(raw[i]);
        return value;
    }

    std::string_view bytes_;
    const std::string& name_;
    size_t at_ = 0;
};

SentencePieceEntry read_piece(std::string_view bytes, const std::string& name) {
    SentencePieceEntry piece;
    Reader reader(bytes, name);
    Field field;
    while (reader.next(field)) {
        if (field.number == 1 && field.wire == 2) piece.text = field.bytes;
        if (field.number == 2 && field.wire == 5) piece.score = field.real();
        if (field.number == 3 && field.wire == 0) {
            if (field.value < 1 || field.value > 6) reader.fail("a piece has an unknown type");
            piece.type = static_cast<PieceType>(field.value);
        }
    }
    if (piece.text.empty()) reader.fail("a piece is empty");
    if (!utf8::is_valid(piece.text)) reader.fail("a piece is not UTF-8");
    if (!(piece.score == piece.score)) reader.fail("a score is not a number");
    return piece;
}

void read_trainer(std::string_view bytes, SentencePieceFile& file, const std::string& name) {
    Reader reader(bytes, name);
    Field field;
    while (reader.next(field)) {
        if (field.number == 3 && field.wire == 0) {
            if (field.value < 1 || field.value > 4) reader.fail("the model type is unknown");
            file.algorithm = static_cast<SentencePieceFile::Algorithm>(field.value);
        }
        if (field.number == 24) file.treat_whitespace_as_suffix = field.flag();
        if (field.number == 35) file.byte_fallback = field.flag();
        if (field.number == 44 && field.wire == 2) file.unknown_surface = field.bytes;
    }
    if (!utf8::is_valid(file.unknown_surface)) reader.fail("the unknown surface is not UTF-8");
}

void read_normalizer(std::string_view bytes, SentencePieceFile& file, const std::string& name) {
    Reader reader(bytes, name);
    Field field;
    while (reader.next(field)) {
        if (field.number == 2 && field.wire == 2) file.charsmap = field.bytes;
        if (field.number == 3) file.add_dummy_prefix = field.flag();
        if (field.number == 4) file.remove_extra_whitespaces = field.flag();
        if (field.number == 5) file.escape_whitespaces = field.flag();
    }
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& name) {
    SentencePieceFile file;
    Reader reader(bytes, name);
    Field field;
    while (reader.next(field)) {
        if (field.wire != 2) continue;
        if (field.number == 1) file.pieces.push_back(read_piece(field.bytes, name));
        if (field.number == 2) read_trainer(field.bytes, file, name);
        if (field.number == 3) read_normalizer(field.bytes, file, name);
    }
    if (file.pieces.empty()) reader.fail("it has no pieces");
    return file;
}

}  // namespace nvllm
