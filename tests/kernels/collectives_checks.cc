// Values that depend on the rank and the index, and the results that they must give.
#include "tests/kernels/collectives_checks.h"

#include <cstring>
#include <vector>

#include "kernels/error.h"

namespace nvllm::test {
namespace {

constexpr int64_t kSumSizes[] = {1, 2, 3, 7, 64, 4097};
constexpr int64_t kMoveSizes[] = {1, 7, 1001};

// Sums of these in another order have other bits: large and small, positive and negative.
double value_of(int rank, int64_t index) {
    const int64_t mixed = (index * 7919 + rank * 104729) % 2003 - 1001;
    const double scale = (index + rank) % 3 == 0 ? 1024.0 : 1.0 / 1024.0;
    return static_cast<double>(mixed) * scale / 7.0;
}

template <typename T>
T made(int rank, int64_t index) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(value_of(rank, index) * 8.0);
    } else {
        return static_cast<T>(static_cast<float>(value_of(rank, index)));
    }
}

template <typename T>
std::vector<T> values_of(int rank, int64_t count) {
    std::vector<T> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(made<T>(rank, i));
    return values;
}

template <typename T>
bool have_same_bits(const std::vector<T>& one, const std::vector<T>& other) {
    // memcmp takes no null pointer, which is what an empty vector may give.
    return one.size() == other.size() &&
           (one.empty() || std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0);
}

template <typename T>
TensorView view(std::vector<T>& values, DType dtype, std::initializer_list<int64_t> shape) {
    return {values.data(), dtype, shape};
}

std::string described(const char* operation, DType dtype, int64_t count) {
    return std::string(operation) + " of " + std::to_string(count) + " values of " +
           dtype_name(dtype);
}

// Sums written out: one after another in the order of the ranks.
template <typename T, typename Sum>
std::string check_all_reduce(const RankGroup& group, DType dtype) {
    for (const int64_t count : kSumSizes) {
        std::vector<T> expected;
        for (int64_t i = 0; i < count; ++i) {
            Sum sum = static_cast<Sum>(made<T>(0, i));
            for (int rank = 1; rank < group.num_ranks(); ++rank) {
                sum = sum + static_cast<Sum>(made<T>(rank, i));
            }
            expected.push_back(static_cast<T>(sum));
        }
        std::vector<T> values = values_of<T>(group.rank(), count);
        group.all_reduce(nullptr, view(values, dtype, {count}));
        if (!have_same_bits(values, expected)) return described("all_reduce", dtype, count);
    }
    return "";
}

template <typename T>
std::string check_all_gather(const RankGroup& group, DType dtype) {
    for (const int64_t count : kMoveSizes) {
        std::vector<T> from = values_of<T>(group.rank(), count);
        std::vector<T> to(static_cast<size_t>(count * group.num_ranks()));
        std::vector<T> expected;
        for (int rank = 0; rank < group.num_ranks(); ++rank) {
            const std::vector<T> theirs = values_of<T>(rank, count);
            expected.insert(expected.end(), theirs.begin(), theirs.end());
        }
        group.all_gather(nullptr, view(from, dtype, {count}),
                         view(to, dtype, {group.num_ranks(), count}));
        if (!have_same_bits(to, expected)) return described("all_gather", dtype, count);
        // In place.
        std::vector<T> own(to.size());
        const auto first = own.begin() + group.rank() * count;
        std::copy(from.begin(), from.end(), first);
        group.all_gather(nullptr, ConstTensorView(&*first, dtype, {count}),
                         view(own, dtype, {group.num_ranks(), count}));
        if (!have_same_bits(own, expected)) return described("all_gather in place", dtype, count);
    }
    return "";
}

// Row r of rank s is that of a rank numbered 10 s + r.
template <typename T>
std::string check_all_to_all(const RankGroup& group, DType dtype) {
    for (const int64_t count : kMoveSizes) {
        std::vector<T> from, expected;
        for (int rank = 0; rank < group.num_ranks(); ++rank) {
            const std::vector<T> sent = values_of<T>(10 * group.rank() + rank, count);
            from.insert(from.end(), sent.begin(), sent.end());
            const std::vector<T> received = values_of<T>(10 * rank + group.rank(), count);
            expected.insert(expected.end(), received.begin(), received.end());
        }
        std::vector<T> to(from.size());
        group.all_to_all(nullptr, view(from, dtype, {group.num_ranks(), count}),
                         view(to, dtype, {group.num_ranks(), count}));
        if (!have_same_bits(to, expected)) return described("all_to_all", dtype, count);
    }
    return "";
}

// Of each pair another size, some of them 0.
template <typename T>
std::string check_exchange(const RankGroup& group, DType dtype) {
    const int ranks = group.num_ranks();
    const auto count_of = [&](int from, int to) { return int64_t{(from * 3 + to * 5) % 4}; };
    std::vector<T> from, expected;
    std::vector<size_t> from_bytes, to_bytes;
    for (int rank = 0; rank < ranks; ++rank) {
        const int64_t sent = count_of(group.rank(), rank);
        const int64_t received = count_of(rank, group.rank());
        const std::vector<T> out = values_of<T>(10 * group.rank() + rank, sent);
        from.insert(from.end(), out.begin(), out.end());
        from_bytes.push_back(static_cast<size_t>(sent) * sizeof(T));
        const std::vector<T> in = values_of<T>(10 * rank + group.rank(), received);
        expected.insert(expected.end(), in.begin(), in.end());
        to_bytes.push_back(static_cast<size_t>(received) * sizeof(T));
    }
    std::vector<T> to(expected.size());
    group.exchange(nullptr, from.data(), from_bytes, to.data(), to_bytes);
    return have_same_bits(to, expected) ? "" : described("exchange", dtype, std::ssize(to));
}

template <typename T>
std::string check_broadcast(const RankGroup& group, DType dtype) {
    for (const int64_t count : kMoveSizes) {
        for (int root = 0; root < group.num_ranks(); ++root) {
            std::vector<T> values = values_of<T>(group.rank(), count);
            group.broadcast(nullptr, view(values, dtype, {count}), root);
            if (!have_same_bits(values, values_of<T>(root, count))) {
                return described("broadcast", dtype, count);
            }
        }
    }
    return "";
}

// Along the ranks, as stages of a pipeline do: two messages, in their order.
template <typename T>
std::string check_send(const RankGroup& group, DType dtype) {
    for (const int64_t count : kMoveSizes) {
        for (int number = 0; number < 2; ++number) {
            std::vector<T> values = values_of<T>(number, count);
            if (group.rank() > 0) {
                std::vector<T> received(values.size());
                group.receive(nullptr, view(received, dtype, {count}), group.rank() - 1);
                if (!have_same_bits(received, values)) return described("receive", dtype, count);
            }
            if (group.rank() + 1 < group.num_ranks()) {
                group.send(nullptr, view(values, dtype, {count}), group.rank() + 1);
            }
        }
    }
    return "";
}

template <typename T>
std::string check_moves(const RankGroup& group, DType dtype) {
    std::string wrong = check_all_gather<T>(group, dtype);
    if (wrong.empty()) wrong = check_all_to_all<T>(group, dtype);
    if (wrong.empty()) wrong = check_exchange<T>(group, dtype);
    if (wrong.empty()) wrong = check_broadcast<T>(group, dtype);
    if (wrong.empty()) wrong = check_send<T>(group, dtype);
    return wrong;
}

template <typename T, typename Sum>
std::string check_type(const RankGroup& group, DType dtype) {
    const std::string wrong = check_all_reduce<T, Sum>(group, dtype);
    return wrong.empty() ? check_moves<T>(group, dtype) : wrong;
}

std::string check_refused_sum(const RankGroup& group) {
    std::vector<uint8_t> bytes(5, 1);
    try {
        group.all_reduce(nullptr, view(bytes, DType::u8, {5}));
    } catch (const Error& error) {
        return error.kind() == ErrorKind::bad_data ? "" : error.what();
    }
    return "bytes are summed";
}

}  // namespace

std::string find_wrong_operation(const RankGroup& group) {
    std::string wrong = check_type<float, float>(group, DType::f32);
    if (wrong.empty()) wrong = check_type<Float16, float>(group, DType::f16);
    if (wrong.empty()) wrong = check_type<BFloat16, float>(group, DType::bf16);
    if (wrong.empty()) wrong = check_type<double, double>(group, DType::f64);
    if (wrong.empty()) wrong = check_type<int32_t, int32_t>(group, DType::i32);
    if (wrong.empty()) wrong = check_type<int64_t, int64_t>(group, DType::i64);
    if (wrong.empty()) wrong = check_moves<uint8_t>(group, DType::u8);
    if (wrong.empty()) wrong = check_refused_sum(group);
    return wrong;
}

}  // namespace nvllm::test
