// Who wins a multiple choice, and files of logprobs.
#include <doctest/doctest.h>

#include <filesystem>

#include "kernels/error.h"
#include "lib/measure/logprob_file.h"
#include "lib/measure/multiple_choice.h"

using namespace nvllm;

TEST_CASE("the highest sum wins, and the highest sum by bytes; of equals the first") {
    const Question question = {"", "", {"a", "bbbb"}, 1};
    CHECK(!grade(question, {-2.0, -4.0}).is_right);
    CHECK(grade(question, {-2.0, -4.0}).is_right_normalised);
    CHECK(grade(question, {-4.0, -2.0}).is_right);
    CHECK(!grade(question, {-2.0, -2.0}).is_right);
    const ChoiceAccuracy accuracy =
        accuracy_of({grade(question, {-2.0, -4.0}), grade(question, {-4.0, -2.0})});
    CHECK(accuracy.accuracy == 0.5);
    CHECK(accuracy.accuracy_error == doctest::Approx(0.5));
    CHECK(accuracy.normalised == 1.0);
    CHECK(accuracy.normalised_error == 0.0);
}

TEST_CASE("a file of logprobs reads back, and every cut of it is an error") {
    const auto path = std::filesystem::temp_directory_path() / "nvllm_logprob_file_test";
    LogprobWriter writer(path, {3, 8, 1});
    writer.add_window({{0, 2}, 1});
    writer.add_row(std::vector<float>{-1.0f, -2.0f, -3.0f});
    writer.finish();
    LogprobReader reader(path);
    CHECK(reader.head().context == 8);
    CHECK(reader.next_window().token_ids == std::vector<int32_t>{0, 2});
    CHECK(reader.next_row() == std::vector<float>{-1.0f, -2.0f, -3.0f});
    for (size_t size = std::filesystem::file_size(path) - 1; size > 0; size -= 3) {
        std::filesystem::resize_file(path, size);
        const auto read = [&] {
            LogprobReader cut(path);
            cut.next_window();
            cut.next_row();
        };
        CHECK_THROWS_AS(read(), Error);
        if (size < 3) break;
    }
    std::filesystem::remove(path);
}
