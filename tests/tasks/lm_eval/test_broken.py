"""Broken task files, after mistakes that people make: each gives the message that its author needs.

The files are in `broken/`. Several mistakes are taken from reports to lm-eval: single braces in templates (#3930), keys
given twice (#4077), a number as the dataset's name (#1885), a list of groups (#1767), `group` in a task's file (#3237),
members without a name (#3947), keys that are gone (#635), a metric of another output type (#2076).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from assay.core.errors import TaskFileError
from assay.tasks.file_checks import check_paths
from assay.tasks.lm_eval.file.schema import KnownNames, task_faults
from assay.tasks.lm_eval.file.yaml_reader import read_task_file

BROKEN = Path(__file__).parent / "broken"
COLUMNS = ("country", "options", "label")

# File, line (None for what is missing altogether), how the message begins after it, a part of its end. All the faults
# of a file, in order.
# fmt: off
TABLE: list[tuple[str, int | None, str, str]] = [
    ("_faulty", 10, "num_fewshot: is 'many' (str)", "a whole number, 0 or more"),
    ("fewshot_key", 12, 'fewshot_config.smapler: unknown key "smapler"', 'did you mean "sampler"'),
    ("fewshot_sampler", 12, "fewshot_config.sampler: is 'first-n' (str)", 'did you mean "first_n"'),
    ("fewshot_samples", 12, "fewshot_config.samples: is ['France: Paris'] (list)", "a list of documents"),
    ("filter_bad_pattern", 17, "filter_list[0].filter[0].regex_pattern: '(\\\\w+' (str) does", "a regular expression"),
    ("filter_function_misspelt", 18, 'filter_list[0].filter[1].function: the key "function" is', "{function: NAME, …}"),
    ("filter_list_mapping", 13, "filter_list: is {'name': 'first-word', 'filter':", "Begin each item with a"),
    ("filter_name_missing", 14, 'filter_list[0]: the key "name" is missing', "{name: …, filter: [{function: …}, …]}"),
    ("filter_same_name", 19, 'filter_list[1].name: "first-word" is the name of two pipelines', "two names"),
    ("filter_steps_unlisted", 14, "filter_list[0]: the value of \"filter\" is {'function':", "{name: …, filter:"),
    ("filter_without_function", 18, "filter_list[0].filter[1].function: is 'take_first' (str)", "Write function:"),
    ("group_aggregate_key", 7, 'aggregate_metric_list[0].weigh_by_size: unknown key "weigh_by_size"', "did you mean"),
    ("group_cycle_a", 4, "task[1]: group cycle: group_cycle_a → group_cycle_b → group_cycle_a", "Remove one of these"),
    ("group_cycle_b", 3, "task[0]: group cycle: group_cycle_b → group_cycle_a → group_cycle_b", "Remove one of these"),
    ("group_list", 1, "group: is ['group_list', 'all'] (list)", "To put tasks in several collections,"),
    ("group_member_without_name", 4, "task[1]: has no name", "a name, {task: name, …} or {group: name, …}"),
    ("group_scalar_task", 2, "task: is 'group_scalar_task' (str)", "A task that belongs to geography has tag:"),
    ("group_unknown_member", 4, 'task[1]: unknown task "demo_scrambel"', 'did you mean "demo_scramble"'),
    ("group_without_members", None, "task: is missing", "a list of members"),
    ("include_cycle_a", 1, "include: include cycle: include_cycle_b.yaml →", "Remove one include of"),
    ("include_cycle_b", 2, "include: include cycle: include_cycle_a.yaml →", "Remove one include of"),
    ("include_folder", 2, 'include: "../broken" is a folder', "a task file"),
    ("include_itself", 2, "include: include cycle: include_itself.yaml → include_itself.yaml", "Remove one include of"),
    ("include_missing", 1, 'include: no file "_bse.yaml": No such file or directory', 'did you mean "_base.yaml"'),
    ("include_number", 2, "include: is 7", "a path or a list of paths"),
    ("include_two_missing", 2, 'include[0]: no file "nowhere.yaml": No such file or', "an existing task file"),
    ("include_two_missing", 3, 'include[1]: no file "nothing.yaml": No such file or', "an existing task file"),
    ("key_bettter", 14, 'metric_list[0].higher_is_bettter: unknown key "higher_is_bettter" goes to', "did you mean"),
    ("key_dataset", 2, 'dataset: unknown key "dataset"', 'did you mean "dataset_path"'),
    ("key_dataset", None, "dataset_path: is missing", "a hub id, a folder, or json/csv/parquet"),
    ("key_delimiter", 9, 'delimiter: unknown key "delimiter"', 'did you mean "target_delimiter"'),
    ("key_doc_to_txt", 8, 'doc_to_txt: unknown key "doc_to_txt"', 'did you mean "doc_to_text"'),
    ("key_doc_to_txt", None, "doc_to_text: is missing", "the prompt: a column or a template"),
    ("key_fewshot_splits", 7, 'fewshot_splits: unknown key "fewshot_splits"', 'did you mean "fewshot_split"'),
    ("key_generation_kwarg", 10, 'generation_kwarg: unknown key "generation_kwarg"', "did you mean"),
    ("key_given_twice", 11, "test_split: the key is given twice: line 6 has it too and is", "Remove one of the two"),
    ("key_given_twice_inside", 13, "generation_kwargs.until: the key is given twice: line 11", "Remove one of the two"),
    ("key_high_is_better", 14, 'metric_list[0].high_is_better: unknown key "high_is_better" goes to', "did you mean"),
    ("key_max_gen_tokens", 12, 'generation_kwargs.max_gen_tokens: unknown key "max_gen_tokens" goes', "did you mean"),
    ("key_metrics_list", 11, 'metrics_list: unknown key "metrics_list"', 'did you mean "metric_list"'),
    ("key_num_fewshots", 11, 'num_fewshots: unknown key "num_fewshots"', 'did you mean "num_fewshot"'),
    ("key_reference", 9, 'reference: unknown key "reference"', "Remove it, or put notes of your own below"),
    ("key_use_prompt", 9, "use_prompt: is not supported by this version of Assay", "Remove the key"),
    ("missing_dataset_path", None, "dataset_path: is missing", "a hub id, a folder, or json/csv/parquet"),
    ("missing_doc_to_choice", None, "doc_to_choice: is missing", "the choices of a multiple_choice task"),
    ("missing_task", None, "the file names neither a task nor a group, and no checked file", "A file that is only"),
    ("missing_task_name", 1, "task: has no name", "task: some_name"),
    ("missing_test_split", None, "test_split: names no split to evaluate", "test_split or validation_split"),
    ("name_aggregation", 13, 'metric_list[0].aggregation: unknown aggregation "average"', "an aggregation's name"),
    ("name_filter", 16, 'filter_list[0].filter[0].function: unknown filter "regexp"', 'did you mean "regex"'),
    ("name_metric", 12, 'metric_list[0].metric: unknown metric "accuracy_norm"', 'did you mean "acc_norm"'),
    ("name_metric_missing", 12, 'metric_list[0]: the key "metric" is missing', "a mapping such as {metric: acc}"),
    ("name_metric_near", 12, 'metric_list[0].metric: unknown metric "acc_nrom"', 'did you mean "acc_norm"'),
    ("name_metric_of_draws", 16, 'metric_list[1]: "k" of the metric "pass@k" is 0', "1 or more draws"),
    ("name_metric_of_other_type", 12, 'metric_list[0].metric: "word_perplexity" is not', "such as acc, acc_norm, f1,"),
    ("several_in_a_generation", 2, "repeats: is 'many' (str)", "a whole number from 1 to 100,000"),
    ("several_in_a_generation", 12, "generation_kwargs.until: is 5 (int)", 'Quote it: "5"'),
    ("several_in_a_generation", 13, "generation_kwargs.temperature: is -1 (int)", "a number, 0 or more"),
    ("several_in_a_generation", 17, 'filter_list[0].filter[0].function: unknown filter "regx"', 'did you mean "regex"'),
    ("several_in_a_generation", 21, 'metric_list[0].metric: unknown metric "exact-match"', "did you mean"),
    ("several_in_a_group", 3, "task[0]: is 7 (int)", "a name, {task: name, …} or {group: name, …}"),
    ("several_in_a_group", 4, 'task[1]: unknown task "demo_scrambled"', 'did you mean "demo_scramble"'),
    ("several_in_a_group", 7, 'aggregate_metric_list[0].weigh_by_size: unknown key "weigh_by_size"', "did you mean"),
    ("several_in_a_group", 8, "group_alias: is 5 (int)", 'Quote it: "5"'),
    ("several_in_a_task", 7, "output_type: is 'multi_choice' (str)", 'did you mean "multiple_choice"'),
    ("several_in_a_task", 8, 'doc_to_txt: unknown key "doc_to_txt"', 'did you mean "doc_to_text"'),
    ("several_in_a_task", 11, "num_fewshot: is 'few' (str)", "a whole number, 0 or more"),
    ("several_in_a_task", 13, 'metric_list[0].metric: unknown metric "acccc"', 'did you mean "acc"'),
    ("several_in_a_task", 14, 'metric_list[0].aggregation: unknown aggregation "meen"', 'did you mean "mean"'),
    ("several_in_a_task", None, "doc_to_text: is missing", "the prompt: a column or a template"),
    ("template_choices_column", 9, 'doc_to_choice: "option" is not a column of the sample', 'did you mean "options"'),
    ("template_column_misspelt", 10, 'doc_to_target: "lable" is not a column of the sample', 'did you mean "label"'),
    ("template_if_without_endif", 8, "doc_to_text: template does not parse (line 1 of it): Unexpected end of", ""),
    ("template_in_fewshot_config", 13, "fewshot_config.doc_to_text: 'contry' is not a", 'did you mean "country"'),
    ("template_one_closing_brace", 8, "doc_to_text: template does not parse (line 1 of it): unexpected '}'", ""),
    ("template_one_pair_of_braces", 8, "doc_to_text: {country} stays as it is: a column needs two", "{{country}}"),
    ("template_undefined", 8, "doc_to_text: 'contry' is not a column of the sample document", 'did you mean "country"'),
    ("template_unknown_filter", 8, "doc_to_text: template does not parse (line 1 of it): No filter named 'titel'.", ""),
    ("type_choices_numbers", 10, "doc_to_choice[0]: is 1 (int)", 'Quote it: "1"'),
    ("type_choices_numbers", 11, "doc_to_choice[1]: is 2 (int)", 'Quote it: "2"'),
    ("type_choices_yes_no", 9, "doc_to_choice[0]: is True (bool)", "Quote it: without quotes yes, no, on, off,"),
    ("type_choices_yes_no", 9, "doc_to_choice[1]: is False (bool)", "Quote it: without quotes yes, no, on, off,"),
    ("type_dataset_kwargs", 3, "dataset_kwargs: is [{'data_files': 'capitals.jsonl'}] (list)", "Remove the dashes"),
    ("type_dataset_name", 3, "dataset_name: is 2018 (int)", 'Quote it: "2018"'),
    ("type_do_sample", 13, "generation_kwargs.do_sample: is 'false' (str)", "Remove the quotes: false"),
    ("type_doc_to_choice", 9, "doc_to_choice: is 4 (int)", "a column, a template, a list or a mapping"),
    ("type_generation_kwargs", 10, "generation_kwargs: is [{'until': ['\\n']}, {'temperature':", "Remove the dashes"),
    ("type_higher_is_better", 14, "metric_list[0].higher_is_better: is 'True' (str)", "Remove the quotes: true"),
    ("type_max_gen_toks", 12, "generation_kwargs.max_gen_toks: is 0 (int)", "a whole number, 1 or more"),
    ("type_metric_list", 11, "metric_list: is {'metric': 'acc', 'aggregation': 'mean',", "Begin each item with a"),
    ("type_metric_names", 12, "metric_list[0]: is 'acc' (str)", "Write metric: acc"),
    ("type_metric_names", 13, "metric_list[1]: is 'acc_norm' (str)", "Write metric: acc_norm"),
    ("type_num_fewshot", 11, "num_fewshot: is 'five' (str)", "a whole number, 0 or more"),
    ("type_num_fewshot_negative", 11, "num_fewshot: is -1 (int)", "a whole number, 0 or more"),
    ("type_num_fewshot_quoted", 11, "num_fewshot: is '5' (str)", "Remove the quotes: 5"),
    ("type_one_brace_pair", 8, "doc_to_text: is {'country': None} (dict)", "Put a template in quotes: without them"),
    ("type_output_generate", 5, "output_type: is 'generate' (str)", 'did you mean "generate_until"'),
    ("type_output_multiple_choices", 7, "output_type: is 'multiple_choices' (str)", 'did you mean "multiple_choice"'),
    ("type_process_docs", 8, "process_docs: is 'utils.process_docs' (str)", "Python code: !function module.name"),
    ("type_repeats", 10, "repeats: is 0 (int)", "a whole number from 1 to 100,000"),
    ("type_should_decontaminate", 11, "should_decontaminate: is 'maybe' (str)", "true or false"),
    ("type_tag", 2, "tag: is {'geography': 'easy'} (dict)", "text or a list of texts"),
    ("type_temperature", 12, "generation_kwargs.temperature: is 'hot' (str)", "a number, 0 or more"),
    ("type_until", 11, "generation_kwargs.until: is {'stop': '\\n'} (dict)", "text or a list of texts"),
    ("yaml_alias_bomb", None, "holds more than 200,000 keys and items", "Write aliases (*name) out: aliases of"),
    ("yaml_alias_to_itself", 11, "holds an alias that refers to itself", "plain data"),
    ("yaml_apostrophe", 8, "is not YAML: text continues after the closing quote", "Put the whole value in quotes; a"),
    ("yaml_brace_open", 3, "is not YAML: the { } opened on this line breaks at", "Close the bracket, put"),
    ("yaml_bracket_open", 9, "is not YAML: the [ ] opened on this line breaks", "Close the bracket, put"),
    ("yaml_colon_in_value", 11, 'is not YAML: the value has ": " in it', 'Write "Answer with one word: the capital"'),
    ("yaml_comma_missing", 9, "is not YAML: the [ ] opened on this line breaks", "Close the bracket, put"),
    ("yaml_comments", None, "holds nothing", "a mapping of keys such as task: my_task"),
    ("yaml_control_character", 8, "is not YAML: holds the control character 0x0007", "Remove it, or write it as an"),
    ("yaml_date", 12, "'2024-02-30' looks like a date, but is not (day is out of range for", "Quote it to make it"),
    ("yaml_empty", None, "holds nothing", "a mapping of keys such as task: my_task"),
    ("yaml_escape", 17, 'is not YAML: "\\w" in a double-quoted text', "Use 'single quotes', in which a backslash is"),
    ("yaml_function_without_dot", 8, 'process_docs: "!function process_docs" names no module', "!function module.name"),
    ("yaml_key_indented_back", 13, "is not YAML: the line is not indented like its neighbours", "Start the keys of"),
    ("yaml_key_indented_deeper", 13, "is not YAML: the key is indented deeper than the line", "Align it with the keys"),
    ("yaml_latin1", 8, "is not UTF-8: invalid continuation byte at byte 179", "Save the file as UTF-8"),
    ("yaml_list", 1, "holds a list", 'Remove the dash before "task:"'),
    ("yaml_list_indented_back", 13, "is not YAML: the line is not indented like its neighbours", "Start the keys of"),
    ("yaml_no_blank_after_colon", 6, "is not YAML: there is no space after the colon", "Write test_split: test"),
    ("yaml_percent", 11, 'is not YAML: a value begins with "%", which is reserved in YAML', "Put the value in quotes"),
    ("yaml_prompt_not_indented", 7, "is not YAML: the line is neither a key nor part of the", "Text of several lines"),
    ("yaml_prose", 1, "holds a str", "a mapping of keys such as task: my_task"),
    ("yaml_python_object", 11, 'is not YAML: unknown tag "!!python/object:builtins.dict"', "!function or plain data"),
    ("yaml_quote_open", 8, "is not YAML: the quote opened on this line is never closed", "a closing quote"),
    ("yaml_quote_open_then_closed", 8, "is not YAML: the quote opened on this line is", "a closing quote"),
    ("yaml_star", 8, 'is not YAML: a value begins with "*", which means an alias or an', "Put the value in quotes"),
    ("yaml_statement_unquoted", 8, 'is not YAML: the value begins with "{%", which means a', 'Write "{% if country'),
    ("yaml_tab", 13, "is not YAML: a tab is used for indentation", "Replace every tab at the start of a line with"),
    ("yaml_tab_first", 12, "is not YAML: a tab is used for indentation", "Replace every tab at the start of a line"),
    ("yaml_tag", 8, 'is not YAML: unknown tag "!func"', 'did you mean "!function"'),
    ("yaml_template_alone", 9, 'is not YAML: the value begins with "{{", which means a', 'Write "{{options}}", or'),
    ("yaml_template_unquoted", 8, 'is not YAML: the value begins with "{{", which means a', 'Write "{{country}} has'),
    ("yaml_text_after_quote", 8, "is not YAML: text continues after the closing quote", "Put the whole value in"),
    ("yaml_two_documents", 11, "is not YAML: a second document begins (---)", "Split the file"),
    ("yaml_unknown_alias", 9, 'is not YAML: a value begins with "*", which means an alias', "Put the value in quotes"),
    ("yaml_utf16", 1, "is not UTF-8: invalid start byte at byte 0", "Save the file as UTF-8"),
]
# fmt: on
FILES = sorted({row[0] for row in TABLE})
# A good base, and a file whose only fault is in what it includes.
GOOD_FILES = {"_base", "include_faulty"}


@pytest.fixture(scope="module")
def messages(names: KnownNames) -> dict[str, list[str]]:
    """File → its messages, from one check of the whole folder with a sample document."""
    found: dict[str, list[str]] = {path.stem: [] for path in BROKEN.glob("*.yaml")}
    for fault in check_paths([BROKEN], names, COLUMNS).faults:
        text = str(fault).replace(f"{BROKEN}/", "")
        found[text.partition(".yaml")[0]].append(text)
    return found


def test_every_file_is_in_the_table() -> None:
    assert {path.stem for path in BROKEN.glob("*.yaml")} == {*FILES, *GOOD_FILES}


@pytest.mark.parametrize("name", FILES)
def test_a_broken_file_gives_the_message_its_author_needs(messages: dict[str, list[str]], name: str) -> None:
    rows = [row for row in TABLE if row[0] == name]
    assert len(messages[name]) == len(rows), messages[name]
    for message, (_, line, start, end) in zip(messages[name], rows, strict=True):
        place = f"{name}.yaml" + (f":{line}" if line else "")
        assert re.match(re.escape(place) + "(  |: )" + re.escape(start), message), message
        assert end in message


@pytest.mark.parametrize("name", sorted(GOOD_FILES))
def test_a_fault_is_reported_where_it_is_and_nowhere_else(messages: dict[str, list[str]], name: str) -> None:
    assert messages[name] == []


def test_a_message_is_one_line_and_not_a_page(messages: dict[str, list[str]]) -> None:
    assert [text for texts in messages.values() for text in texts if len(text) > 440 or "\n" in text] == []


def test_a_byte_order_mark_and_windows_line_ends_are_no_mistake(tmp_path: Path, names: KnownNames) -> None:
    text = (BROKEN / "_base.yaml").read_text(encoding="utf-8")
    path = tmp_path / "marked.yaml"
    path.write_bytes(("\ufefftask: marked\n" + text).replace("\n", "\r\n").encode())
    assert check_paths([path], names, COLUMNS).faults == ()


@pytest.mark.parametrize("name", ["key_given_twice", "key_given_twice_inside", "key_bettter", "key_max_gen_tokens"])
def test_a_slip_is_reported_by_a_check_and_accepted_by_a_run(names: KnownNames, name: str) -> None:
    assert task_faults(read_task_file(BROKEN / f"{name}.yaml"), names) == []


def test_the_command_reports_everything_and_ends_with_2() -> None:
    command = [sys.executable, "-m", "assay", "check", str(BROKEN)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert len(re.findall("^error: ", done.stderr, re.MULTILINE)) >= 100


def test_all_faults_of_several_includes_come_at_once() -> None:
    with pytest.raises(TaskFileError) as caught:
        read_task_file(BROKEN / "include_two_missing.yaml")
    assert len(caught.value.faults) == 2
