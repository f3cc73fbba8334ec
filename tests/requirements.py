"""What toolscript must do: every requirement, and the tests that prove it.

An entry is proved when `open` is empty. One that is open says why, and may
name tests that prove a part. `tests/test_requirements.py` holds manifest and
tests together.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement: what it asks for, the tests that prove it, or why it is open."""

    text: str
    proved_by: tuple[str, ...] = ()
    open: str = ""

    def __post_init__(self) -> None:
        if not self.proved_by and not self.open:
            raise ValueError(f"{self.text}: neither proved nor open")


REQUIREMENTS: dict[str, Requirement] = {
    "search:rank": Requirement(
        "A sentence returns tools by confidence, each with a reason; the order is total.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_telling_queries",
            "tests/test_bootstrap.py::test_a_question_is_answered_from_the_snapshot_with_no_server",
            "tests/retrieval/test_engine.py::test_a_question_in_plain_words_finds_the_tool",
            "tests/retrieval/test_engine.py::test_hits_are_ordered_by_confidence_and_then_by_id",
            "tests/retrieval/test_engine.py::test_the_best_of_many_are_the_first_of_all",
            "tests/retrieval/test_engine.py::test_any_question_is_answered_with_scores_in_0_to_1_in_order",
            "tests/retrieval/test_engine.py::test_the_order_of_the_documents_changes_no_score_and_no_order",
        ),
    ),
    "search:typo": Requirement(
        "Misspelled names find their tool, with a confidence that reflects the distance.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_telling_queries",
            "tests/retrieval/test_engine.py::test_a_misspelled_name_finds_the_tool",
            "tests/retrieval/test_engine.py::test_confidence_falls_with_the_distance_from_the_name",
            "tests/retrieval/test_fuzzy.py::test_a_typo_finds_the_word_and_counts_less_the_farther_it_is",
            "tests/retrieval/test_fuzzy.py::test_at_most_one_edit_per_four_letters_is_forgiven",
            "tests/retrieval/test_names.py::test_a_misspelled_name_is_as_alike_as_its_edits_leave_it",
            "tests/retrieval/test_names.py::test_what_is_too_far_from_every_name_is_none",
        ),
    ),
    "search:exact": Requirement(
        "A tool's name, qualified id or words return that tool first, whatever the weights.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_telling_queries",
            "tests/gateway/test_upstream_real.py::test_every_tool_is_found_by_its_id",
            "tests/retrieval/test_engine.py::test_an_exact_name_id_or_its_words_is_always_first_whatever_the_weights",
            "tests/retrieval/test_engine.py::test_tools_of_the_same_name_tie_and_the_qualified_one_is_alone",
            "tests/retrieval/test_engine.py::test_a_perfect_score_that_is_no_exact_name_stays_below_one",
            "tests/retrieval/test_names.py::test_every_spelling_of_a_name_is_that_name",
            "tests/retrieval/test_names.py::test_a_name_that_two_servers_have_is_both",
            "tests/retrieval/test_names.py::test_among_near_twins_the_one_that_was_typed_is_meant",
        ),
    ),
    "search:intent": Requirement(
        "With only a shell, what a shell can do returns the shell, boosted, with the reason.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_telling_queries",
            "tests/retrieval/test_engine.py::test_with_only_a_shell_the_shell_is_inferred_with_its_confidence_raised",
            "tests/retrieval/test_engine.py::test_with_a_git_tool_present_that_is_first_and_nothing_is_inferred",
            "tests/retrieval/test_engine.py::test_for_what_no_shell_can_do_a_shell_is_no_answer",
            "tests/retrieval/test_capability.py::test_the_table_is_complete_and_no_capability_is_in_it_twice",
            "tests/retrieval/test_capability.py::test_a_question_is_read_for_what_it_wants",
            "tests/retrieval/test_capability.py::test_a_question_that_wants_nothing_of_the_table_wants_nothing",
            "tests/retrieval/test_capability.py::test_a_shell_is_raised_part_of_the_way_to_1_by_hand",
        ),
        open="that a boost never lowers ranking quality is to be measured by a benchmark",
    ),
    "search:fusion": Requirement(
        "Score = alpha * semantic + (1 - alpha) * fuzzy, renormalised over what answered.",
        proved_by=(
            "tests/test_bootstrap.py::test_limit_threshold_and_alpha_come_from_the_settings",
            "tests/retrieval/test_engine.py::test_the_score_is_alpha_semantic_plus_the_rest_fuzzy",
            "tests/retrieval/test_engine.py::test_every_candidate_is_scored_by_every_signal_wherever_it_ranks",
            "tests/retrieval/test_engine.py::test_when_the_model_is_missing_fuzzy_carries_the_whole_weight",
            "tests/contracts/test_signals.py::test_a_ranking_scores_every_document_from_0_to_1_or_not_at_all",
            "tests/retrieval/test_fusion.py::test_the_score_is_alpha_semantic_plus_the_rest_fuzzy",
            "tests/retrieval/test_fusion.py::test_alpha_moves_the_weight",
            "tests/retrieval/test_fusion.py::test_the_weight_of_a_silent_signal_is_renormalised_away",
        ),
    ),
    "search:calibrated": Requirement(
        "A threshold means the same for every model.",
        proved_by=(
            "tests/retrieval/test_engine.py::test_gibberish_and_what_is_off_topic_finds_nothing",
            "tests/embedding/test_models.py::test_what_was_measured_is_in_the_table",
            "tests/retrieval/test_calibration.py::test_unrelated_is_0_a_good_answer_is_good_and_1_stays_1",
            "tests/retrieval/test_calibration.py::test_calibration_keeps_the_order_and_stays_in_0_to_1",
            "tests/retrieval/test_calibration.py::test_between_floor_and_1_no_two_cosines_fall_together",
            "tests/retrieval/test_calibration.py::test_the_points_between_are_on_straight_lines",
            "tests/retrieval/test_calibration.py::test_the_bundled_model_is_measured_as_it_was_on_the_retrieval_sets",
            "tests/retrieval/test_calibration.py::test_a_model_on_another_scale_gives_nearly_the_same_confidences",
            "tests/retrieval/test_calibration.py::test_a_model_is_measured_once_and_that_is_kept",
            "tests/retrieval/test_semantic.py::test_a_score_is_the_calibrated_cosine_with_the_question",
        ),
        open="survivors and gibberish are to be measured by a benchmark",
    ),
    "search:reason": Requirement(
        "The reason names the signal that contributed most.",
        proved_by=(
            "tests/retrieval/test_engine.py::test_with_only_a_shell_the_shell_is_inferred_with_its_confidence_raised",
            "tests/retrieval/test_engine.py::test_the_reason_is_the_signal_that_contributed_most",
            "tests/retrieval/test_engine.py::test_the_reason_agrees_with_the_weighted_signals_of_every_hit",
            "tests/retrieval/test_capability.py::test_a_tool_is_labelled_by_what_it_is_for",
            "tests/retrieval/test_fusion.py::test_contributions_are_what_each_signal_added",
            "tests/retrieval/test_reasons.py::test_the_reason_names_what_contributed_most",
        ),
    ),
    "search:threshold": Requirement(
        "Results below the threshold are left out, one at the threshold stays.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_limit_and_threshold_from_flag_and_environment",
            "tests/test_bootstrap.py::test_limit_threshold_and_alpha_come_from_the_settings",
            "tests/retrieval/test_engine.py::test_a_result_at_the_threshold_stays_and_one_above_it_goes",
            "tests/retrieval/test_engine.py::test_a_threshold_of_exactly_0_35_keeps_0_35",
            "tests/test_settings.py::test_the_defaults_are_those_of_the_specification",
        ),
    ),
    "search:limit": Requirement(
        "At most limit results, three by default.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_limit_and_threshold_from_flag_and_environment",
            "tests/test_bootstrap.py::test_limit_threshold_and_alpha_come_from_the_settings",
            "tests/retrieval/test_engine.py::test_at_most_limit_results_three_when_nothing_is_said",
            "tests/retrieval/test_engine.py::test_the_best_of_many_are_the_first_of_all",
            "tests/test_settings.py::test_the_defaults_are_those_of_the_specification",
        ),
    ),
    "search:none": Requirement(
        "Where nothing is found, advice and the nearest that fell below the threshold.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_gibberish",
            "tests/surfaces/cli/test_cli_search.py::test_nothing_found",
            "tests/surfaces/http/test_http.py::test_nothing_found",
            "tests/retrieval/test_engine.py::test_where_nothing_passes_the_best_below_the_threshold_is_named",
            "tests/retrieval/test_engine.py::test_where_something_passes_nothing_below_is_named",
            "tests/retrieval/test_engine.py::test_where_nothing_scores_at_all_nothing_is_named",
        ),
    ),
    "search:filter": Requirement(
        "--server restricts the search.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_only_some_servers",
            "tests/surfaces/http/test_http.py::test_only_some_servers",
            "tests/test_app.py::test_a_search_can_be_kept_to_servers",
            "tests/retrieval/test_engine.py::test_a_search_can_be_kept_to_servers",
        ),
    ),
    "search:timeout": Requirement(
        "A search ends within 10 s, with a clear error.",
        proved_by=(
            "tests/test_app_faults.py::test_a_search_that_takes_too_long_is_a_clear_error_and_the_next_one_is_answered",
        ),
    ),
    "search:degraded": Requirement(
        "With no model the search answers from words, and says so.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_degraded_is_told",
            "tests/test_bootstrap.py::test_a_model_that_is_not_there_is_replaced_as_the_settings_say",
            "tests/retrieval/test_engine.py::test_when_the_model_is_missing_fuzzy_carries_the_whole_weight",
            "tests/retrieval/test_engine.py::test_with_no_usable_model_every_answer_says_so_and_a_warning_is_logged_once",
            "tests/retrieval/test_engine.py::test_with_the_bundled_fallback_meaning_is_found_and_every_answer_says_why",
            "tests/retrieval/test_engine.py::test_with_its_model_an_answer_is_not_degraded",
            "tests/retrieval/test_engine.py::test_without_a_model_names_and_words_still_answer_whatever_alpha",
            "tests/embedding/test_loader.py::test_where_a_model_cannot_be_the_bundled_one_answers_and_says_why",
        ),
    ),
    "search:limits": Requirement(
        "Query length, limit and batch size are bounded; the refusal names value and range.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_a_flag_out_of_range",
            "tests/surfaces/cli/test_cli_search.py::test_a_query_that_cannot_be_searched",
            "tests/surfaces/cli/test_cli_search.py::test_a_mistake_in_the_environment",
            "tests/surfaces/http/test_http.py::test_what_cannot_be_searched",
            "tests/surfaces/http/test_http.py::test_a_query_of_a_megabyte",
            "tests/test_app.py::test_what_is_out_of_range_is_refused",
            "tests/retrieval/test_engine.py::test_a_value_out_of_range_is_refused_naming_value_and_range",
            "tests/retrieval/test_engine.py::test_an_empty_or_blank_question_is_refused",
        ),
    ),
    "search:stats": Requirement(
        "What is indexed, by what, and how much of it was cached.",
        proved_by=(
            "tests/surfaces/http/test_http.py::test_statistics",
            "tests/test_app.py::test_statistics",
            "tests/test_bootstrap.py::test_what_was_embedded_once_is_read_from_the_cache",
            "tests/test_bootstrap.py::test_the_statistics_say_what_answers",
            "tests/test_bootstrap.py::test_a_question_asked_twice_is_embedded_once",
        ),
    ),
    "model:default": Requirement(
        "The default model comes from the hub, once, with progress.",
        proved_by=(
            "tests/surfaces/cli/test_cli_models.py::test_a_model_is_downloaded_at_the_first_search_and_the_hub_not_asked_again",
            "tests/surfaces/cli/test_cli_models.py::test_a_download_is_shown_on_a_terminal",
            "tests/surfaces/cli/test_cli_models.py::test_a_gateway_downloads_the_model_before_it_is_ready",
            "tests/surfaces/cli/test_cli_models.py::test_a_model_that_the_hubs_client_has_already_is_not_downloaded",
            "tests/embedding/test_models.py::test_the_table_has_the_three_models_of_the_specification_and_the_default_is_one",
            "tests/embedding/test_hub.py::test_a_model_is_downloaded_once_with_progress_and_only_what_is_needed",
            "tests/embedding/test_hub.py::test_a_download_that_is_cut_goes_on_where_it_was",
            "tests/embedding/test_hub.py::test_what_a_process_had_when_it_was_killed_is_gone_on_with",
            "tests/embedding/test_hub.py::test_a_file_that_arrives_damaged_is_thrown_away",
            "tests/embedding/test_hub.py::test_a_disk_that_fills_up_is_told_and_nothing_counts_as_downloaded",
        ),
        open="the real hub was out of reach: bge-small itself, and its 5 s, are not measured",
    ),
    "model:bundled": Requirement(
        "The package carries a model; it answers where the one asked for cannot.",
        proved_by=(
            "tests/surfaces/cli/test_cli_models.py::test_with_a_hub_that_hangs_the_bundled_model_answers_with_one_warning",
            "tests/surfaces/cli/test_cli_models.py::test_offline_is_offline",
            "tests/embedding/test_hub.py::test_a_hub_that_does_not_answer_is_given_up_and_that_is_remembered",
            "tests/embedding/test_hub.py::test_where_the_hub_does_not_answer_the_bundled_model_does",
            "tests/test_bootstrap.py::test_the_statistics_say_what_answers",
            "tests/test_bootstrap.py::test_a_model_that_is_not_there_is_replaced_as_the_settings_say",
            "tests/retrieval/test_engine.py::test_with_the_bundled_fallback_meaning_is_found_and_every_answer_says_why",
            "tests/embedding/test_loader.py::test_the_bundled_model_is_loaded_with_no_network_and_no_download",
            "tests/embedding/test_loader.py::test_where_a_model_cannot_be_the_bundled_one_answers_and_says_why",
            "tests/embedding/test_models.py::test_the_bundled_models_row_says_what_its_files_say",
            "tests/embedding/test_onnx.py::test_the_bundled_model_agrees_with_the_publishers_at_full_precision",
            "tests/embedding/test_onnx.py::test_the_bundled_files_are_those_that_provenance_names",
        ),
    ),
    "model:select": Requirement(
        "A model is chosen by repository, folder or address; an incompatible one is refused.",
        proved_by=(
            "tests/surfaces/cli/test_cli_models.py::test_a_model_is_downloaded_at_the_first_search_and_the_hub_not_asked_again",
            "tests/embedding/test_hub.py::test_a_repository_without_one_of_the_files_is_refused_naming_it",
            "tests/embedding/test_hub.py::test_a_hub_that_refuses_is_quoted",
            "tests/embedding/test_models.py::test_a_repository_is_named_as_on_the_hub",
            "tests/embedding/test_models.py::test_an_unknown_model_is_read_from_its_files_and_its_family",
            "tests/embedding/test_models.py::test_files_that_do_not_say_enough_are_refused",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_model_from_the_environment_holds_for_the_gateway",
            "tests/test_bootstrap.py::test_a_model_folder_is_used_where_there_is_one",
            "tests/embedding/test_loader.py::test_a_folder_in_the_hubs_layout_is_loaded",
            "tests/embedding/test_loader.py::test_what_is_missing_in_a_folder_is_in_the_reason",
            "tests/embedding/test_loader.py::test_a_folder_of_any_name_is_read_as_its_files_say",
            "tests/embedding/test_onnx.py::test_a_folder_without_one_of_the_files_is_refused_naming_it",
            "tests/embedding/test_onnx.py::test_a_damaged_file_is_refused_naming_it",
        ),
        open="remote embedders are to come",
    ),
    "model:table": Requirement(
        "Dimensions, pooling, prefix, licence and source per model.",
        proved_by=(
            "tests/embedding/test_models.py::test_the_table_has_the_three_models_of_the_specification_and_the_default_is_one",
            "tests/embedding/test_models.py::test_a_row_of_the_table_is_complete",
            "tests/embedding/test_models.py::test_no_model_is_in_the_table_twice",
            "tests/embedding/test_models.py::test_what_was_measured_is_in_the_table",
            "tests/embedding/test_models.py::test_the_bundled_models_row_says_what_its_files_say",
            "tests/embedding/test_models.py::test_a_model_is_known_whatever_repository_publishes_it",
            "tests/embedding/test_onnx.py::test_pooling_is_over_the_texts_own_tokens_whatever_it_is_padded_to",
            "tests/embedding/test_onnx.py::test_a_text_is_cut_at_the_models_token_limit",
        ),
    ),
    "model:prefix": Requirement(
        "Questions get the model's prefix, tool texts never.",
        proved_by=(
            "tests/embedding/test_models.py::test_the_table_has_the_three_models_of_the_specification_and_the_default_is_one",
            "tests/embedding/test_models.py::test_an_unknown_model_is_read_from_its_files_and_its_family",
            "tests/embedding/test_onnx.py::test_questions_get_the_models_prefix_and_documents_do_not",
            "tests/retrieval/test_semantic.py::test_what_is_embedded_is_everything_the_name_and_the_first_sentence",
        ),
    ),
    "model:device": Requirement(
        "auto, cpu or gpu, checked and shown.",
        proved_by=(
            "tests/embedding/test_device.py::test_what_is_asked_and_what_is_offered_decide",
            "tests/embedding/test_device.py::test_what_a_session_runs_on_is_what_it_says_itself",
            "tests/embedding/test_device.py::test_a_session_is_looked_at_after_it_is_made",
            "tests/embedding/test_device.py::test_a_gpu_that_must_be_and_is_not_is_an_error_at_every_search",
            "tests/embedding/test_device.py::test_the_weights_depend_on_the_device",
            "tests/embedding/test_hub.py::test_on_a_gpu_the_weights_that_are_not_int8_are_preferred",
        ),
        open="no GPU was at hand: no accelerator has been run",
    ),
    "model:lazy": Requirement(
        "The model loads when first needed; embedding is batched, questions are remembered.",
        proved_by=(
            "tests/test_bootstrap.py::test_nothing_is_loaded_by_wiring",
            "tests/test_bootstrap.py::test_a_question_asked_twice_is_embedded_once",
            "tests/embedding/test_loader.py::test_nothing_is_loaded_before_it_is_needed_and_then_once_for_all_threads",
            "tests/retrieval/test_semantic.py::test_documents_are_embedded_in_batches_and_can_be_found_in_between",
            "tests/retrieval/test_semantic.py::test_a_questions_vector_is_remembered",
            "tests/retrieval/test_semantic.py::test_the_memory_of_questions_is_bounded_and_keeps_the_latest",
            "tests/retrieval/test_semantic.py::test_nothing_is_loaded_before_there_is_something_to_embed",
        ),
    ),
    "cache:place": Requirement(
        "The cache lives in the data directory, which can be moved.",
        proved_by=(
            "tests/test_bootstrap.py::test_the_embedding_cache_is_in_the_home_directory_named_by_the_servers",
            "tests/test_bootstrap.py::test_the_data_directory_moves_it",
            "tests/embedding/test_cache.py::test_the_file_is_named_by_the_hash_and_made_with_its_directories",
            "tests/test_settings.py::test_the_defaults_are_those_of_the_specification",
        ),
    ),
    "cache:name": Requirement(
        "One file per set of servers, named by its hash.",
        proved_by=(
            "tests/test_bootstrap.py::test_the_embedding_cache_is_in_the_home_directory_named_by_the_servers",
            "tests/test_bootstrap.py::test_another_set_of_servers_is_another_file",
            "tests/test_config.py::test_the_hash_is_that_of_the_sorted_names_of_the_enabled_servers",
            "tests/embedding/test_cache.py::test_the_file_is_named_by_the_hash_and_made_with_its_directories",
        ),
    ),
    "cache:shape": Requirement(
        "Version, model, hash, embeddings and a checksum.",
        proved_by=(
            "tests/embedding/test_cache.py::test_what_is_written_is_read_bit_for_bit",
            "tests/embedding/test_cache.py::test_the_file_has_the_shape_of_the_specification",
        ),
    ),
    "cache:validity": Requirement(
        "What does not fit is rebuilt, what changed is embedded again, what is gone is pruned.",
        proved_by=(
            "tests/test_bootstrap.py::test_a_changed_tool_alone_is_embedded_again",
            "tests/test_bootstrap.py::test_a_damaged_cache_is_rebuilt_with_a_warning",
            "tests/embedding/test_cache.py::test_a_file_truncated_at_any_length_is_empty_and_never_fails",
            "tests/embedding/test_cache.py::test_a_changed_byte_anywhere_never_yields_another_vector",
            "tests/embedding/test_cache.py::test_a_file_that_does_not_fit_is_ignored_with_a_warning_and_replaced",
            "tests/embedding/test_cache.py::test_a_right_checksum_over_a_wrong_shape_is_damage_too",
            "tests/embedding/test_onnx.py::test_other_weights_have_another_name",
            "tests/retrieval/test_semantic.py::test_only_what_changed_is_embedded_again",
        ),
    ),
    "cache:incremental": Requirement(
        "Another set of servers is another file.",
        proved_by=(
            "tests/test_bootstrap.py::test_what_was_embedded_once_is_read_from_the_cache",
            "tests/test_bootstrap.py::test_another_set_of_servers_is_another_file",
            "tests/retrieval/test_semantic.py::test_a_second_process_computes_nothing_and_ranks_alike",
            "tests/retrieval/test_semantic.py::test_a_file_that_is_in_step_is_not_written_again",
        ),
        open="vectors of unchanged tools are not taken over from another file yet",
    ),
    "cache:off": Requirement(
        "The cache can be switched off.",
        proved_by=(
            "tests/test_bootstrap.py::test_without_the_cache_nothing_is_written",
            "tests/test_bootstrap.py::test_without_the_cache_nothing_is_read",
            "tests/test_settings.py::test_truth_is_written_in_several_ways",
        ),
    ),
    "cache:safe": Requirement(
        "Two processes, a full disk or a kill lose nothing that was there.",
        proved_by=(
            "tests/embedding/test_cache.py::test_a_directory_that_cannot_be_made_is_a_warning_and_no_failure",
            "tests/embedding/test_cache.py::test_two_processes_that_write_at_once_leave_one_whole_file",
            "tests/test_files.py::test_a_full_disk_leaves_the_file_as_it_was",
            "tests/test_files.py::test_a_kill_at_any_moment_leaves_a_whole_file",
        ),
        open="two writers, a full disk and a kill are tested; a memory-mapped sidecar is to come",
    ),
    "config:file": Requirement(
        "mcpServers as every client writes it; a mistake costs one server and is explained.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_no_configuration",
            "tests/surfaces/cli/test_cli_search.py::test_a_configuration_that_is_not_there",
            "tests/surfaces/cli/test_cli_search.py::test_a_configuration_that_is_not_json",
            "tests/surfaces/cli/test_cli_search.py::test_a_mistake_disables_that_server_only",
            "tests/surfaces/cli/test_cli_search.py::test_a_project_over_the_home_directory",
            "tests/test_app.py::test_a_mistake_disables_that_server_only",
            "tests/test_app.py::test_a_disabled_server_is_not_started",
            "tests/test_bootstrap.py::test_without_a_configuration_there_is_no_application",
        ),
    ),
    "upstream:transports": Requirement(
        "stdio, streamable HTTP, SSE; OAuth for remote servers.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_all_are_ready",
            "tests/gateway/test_upstream_real.py::test_the_installed_data_is_left_alone",
            "tests/gateway/test_upstream_transports.py::test_stdio",
            "tests/gateway/test_upstream_transports.py::test_streamable_http",
            "tests/gateway/test_upstream_transports.py::test_sse",
            "tests/gateway/test_upstream_transports.py::test_a_url_without_a_type_that_only_speaks_sse",
            "tests/gateway/test_upstream_transports.py::test_a_stated_type_is_not_second_guessed",
            "tests/gateway/test_upstream_transports.py::test_headers_reach_the_server",
            "tests/surfaces/cli/test_cli_auth.py::test_logging_in_connects_a_running_gateway",
            "tests/surfaces/cli/test_cli_auth.py::test_a_token_is_refreshed_before_it_expires",
            "tests/surfaces/cli/test_cli_auth.py::test_a_token_that_is_not_taken_any_more_is_refreshed",
            "tests/surfaces/cli/test_cli_auth.py::test_a_login_that_has_ended_is_told",
        ),
    ),
    "upstream:isolation": Requirement(
        "What one server does reaches no other; no process outlives the gateway.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_one_gateway_with_all",
            "tests/surfaces/cli/test_cli_gateway.py::test_failures_are_told_at_the_start",
            "tests/gateway/test_upstream_faults.py::test_no_process_is_left_that_left_its_group",
            "tests/surfaces/cli/test_cli_gateway.py::test_no_process_is_left_after_a_kill",
            "tests/surfaces/cli/test_cli_gateway.py::test_no_process_is_left_after_a_signal",
            "tests/surfaces/cli/test_cli_gateway.py::test_no_process_is_left_after_stop",
            "tests/surfaces/cli/test_cli_gateway.py::test_no_process_is_left_after_a_search",
            "tests/surfaces/cli/test_cli_gateway.py::test_an_interrupted_search",
            "tests/surfaces/cli/test_cli_search.py::test_a_server_that_fails_is_told",
            "tests/test_app.py::test_many_searches_at_once",
        ),
    ),
    "upstream:live": Requirement(
        "Changes of servers and configuration reach catalogue and index within a second.",
        proved_by=(
            "tests/retrieval/test_engine.py::test_an_update_replaces_what_can_be_found",
            "tests/retrieval/test_engine.py::test_a_superseded_update_ends_early_and_keeps_what_it_did",
            "tests/gateway/test_catalogue.py::test_replacing_a_server_leaves_the_old_catalogue_as_it_was",
            "tests/gateway/test_catalogue.py::test_what_makes_one_catalogue_into_another",
            "tests/gateway/test_catalogue.py::test_any_difference_is_a_difference",
            "tests/gateway/test_gateway.py::test_who_waits_for_a_change_gets_the_latest_catalogue",
            "tests/gateway/test_upstream_faults.py::test_its_tools_change",
            "tests/gateway/test_upstream_news.py::test_a_change_that_is_told_is_found",
            "tests/gateway/test_upstream_news.py::test_a_change_that_is_not_told_is_found",
            "tests/gateway/test_upstream_news.py::test_a_stream_that_breaks_is_opened_again",
            "tests/gateway/test_gateway.py::test_only_what_changed_is_restarted",
            "tests/gateway/test_follower.py::test_an_edit_is_handed_over_once",
            "tests/test_app_live.py::test_a_server_that_is_added_is_found_and_only_its_tools_embedded",
            "tests/test_app_live.py::test_a_server_that_is_changed_is_started_anew",
            "tests/surfaces/cli/test_cli_gateway.py::test_an_edited_configuration_is_followed",
        ),
        open="that it takes no more than a second is to be measured by a benchmark",
    ),
    "catalogue:progressive": Requirement(
        "Tools are searchable as their server connects.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_nothing_to_search",
            "tests/surfaces/http/test_http.py::test_not_ready",
            "tests/test_app.py::test_tools_are_searchable_as_their_server_connects",
            "tests/test_app.py::test_nothing_to_search_yet",
            "tests/test_app.py::test_nothing_to_search_at_all",
            "tests/test_app.py::test_servers_without_tools",
            "tests/retrieval/test_engine.py::test_what_is_new_is_found_by_its_words_before_it_is_embedded",
            "tests/gateway/test_gateway.py::test_tools_are_there_as_their_server_reports_ready",
        ),
    ),
    "catalogue:snapshot": Requirement(
        "The last known catalogue answers before anything is connected.",
        proved_by=(
            "tests/surfaces/cli/test_cli_gateway.py::test_a_gateway_answers_before_its_servers_are_up",
            "tests/surfaces/cli/test_cli_search.py::test_the_second_search_starts_no_server",
            "tests/surfaces/cli/test_cli_search.py::test_refresh_connects_again",
            "tests/surfaces/cli/test_cli_search.py::test_a_server_that_failed_can_be_tried_again",
            "tests/surfaces/cli/test_cli_search.py::test_searching_a_snapshot_imports_no_mcp",
            "tests/test_app.py::test_what_is_known_is_not_connected_to",
            "tests/test_app.py::test_only_what_was_configured_anew_is_connected_to",
            "tests/test_app.py::test_what_is_no_longer_configured_is_gone",
        ),
    ),
    "catalogue:ids": Requirement(
        "server__tool inside; exposed names short, stable and collision-free.",
        proved_by=(
            "tests/gateway/test_catalogue.py::test_tools_are_by_id_and_in_the_order_of_the_ids",
            "tests/gateway/test_catalogue.py::test_exposed_names_are_short_plain_and_all_different",
            "tests/gateway/test_catalogue.py::test_an_exposed_name_does_not_change_when_other_tools_come_and_go",
            "tests/gateway/test_catalogue.py::test_an_id_that_does_not_fit_is_cut_and_gets_a_part_of_its_hash",
            "tests/gateway/test_catalogue.py::test_a_name_of_64_characters_is_left_alone_and_one_of_65_is_not",
            "tests/gateway/test_catalogue.py::test_a_tool_that_has_the_name_made_for_another_keeps_it",
            "tests/gateway/test_calls.py::test_a_tool_goes_by_its_id_and_as_the_seed_writes_it",
            "tests/gateway/test_calls.py::test_a_tool_goes_by_the_name_that_models_see",
            "tests/surfaces/mcp/test_mcp.py::test_every_tool_as_a_plain_proxy",
            "tests/test_types.py::test_ids_split_back_into_what_they_were_made_of",
            "tests/test_types.py::test_what_has_no_server_or_no_tool_is_no_id",
        ),
    ),
    "cli:search": Requirement(
        "toolscript search: a table, types or JSON; plain in a pipe.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_on_the_command_line",
            "tests/surfaces/cli/test_cli_search.py::test_a_table",
            "tests/surfaces/cli/test_cli_search.py::test_plain_when_piped",
            "tests/surfaces/cli/test_cli_search.py::test_json_is_what_the_gateway_answers",
            "tests/surfaces/cli/test_cli_search.py::test_terminal_escapes_are_neutralised",
            "tests/surfaces/cli/test_cli_search.py::test_usage",
            "tests/surfaces/cli/test_cli_search.py::test_progress_on_a_terminal",
            "tests/surfaces/cli/test_cli_search.py::test_a_long_description_is_cut_to_the_terminal",
        ),
        open="--output types is to come with the typed clients",
    ),
    "cli:per-call": Requirement(
        "--model and --data-dir hold for the call.",
        proved_by=(
            "tests/surfaces/cli/test_cli_gateway.py::test_a_data_directory_holds_for_the_call",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_model_holds_for_the_call",
            "tests/surfaces/cli/test_cli_search.py::test_a_data_directory_of_its_own",
        ),
    ),
    "cli:types": Requirement(
        "Search results as a typed client.",
        open="typed clients are to come",
    ),
    "cli:others": Requirement(
        "gateway, list-servers, list-tools, get-types, call, auth.",
        proved_by=(
            "tests/gateway/test_upstream_real.py::test_one_gateway_with_all",
            "tests/surfaces/cli/test_cli_call.py::test_a_call_without_a_gateway_starts_that_server_only",
            "tests/surfaces/cli/test_cli_call.py::test_a_call_through_a_gateway",
            "tests/surfaces/cli/test_cli_call.py::test_what_a_tool_says_and_its_failure",
            "tests/surfaces/cli/test_cli_call.py::test_what_cannot_be_called",
            "tests/surfaces/cli/test_cli_doctor.py::test_what_is_wrong_is_told_with_what_to_do",
            "tests/surfaces/cli/test_cli_gateway.py::test_start_status_stop",
            "tests/surfaces/cli/test_cli_gateway.py::test_starting_twice_is_refused",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_port_that_is_taken",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_configuration_that_cannot_be_used",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_record_of_a_dead_gateway_is_ignored",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_record_whose_port_is_somebody_elses",
            "tests/surfaces/cli/test_cli_gateway.py::test_a_damaged_record_is_ignored",
        ),
        open="get-types is to come",
    ),
    "http:search": Requirement(
        "GET /search.",
        proved_by=(
            "tests/surfaces/cli/test_cli_search.py::test_json_is_what_the_gateway_answers",
            "tests/surfaces/http/test_http.py::test_a_search",
            "tests/surfaces/http/test_http.py::test_limit_and_threshold",
            "tests/surfaces/http/test_http.py::test_what_cannot_be_searched",
            "tests/surfaces/http/test_http.py::test_odd_queries",
            "tests/surfaces/http/test_http.py::test_odd_targets",
            "tests/surfaces/http/test_http.py::test_a_query_of_a_megabyte",
            "tests/surfaces/http/test_http.py::test_what_is_not_http",
        ),
    ),
    "http:types": Requirement(
        "GET /runtime/tools.ts.",
        open="typed clients are to come",
    ),
    "http:others": Requirement(
        "/health, /servers, /tools, /search/stats, calling tools, OpenAPI.",
        proved_by=(
            "tests/surfaces/http/test_http.py::test_health",
            "tests/surfaces/http/test_http.py::test_servers",
            "tests/surfaces/http/test_http.py::test_tools",
            "tests/gateway/test_calls.py::test_a_result_comes_back_as_it_is",
            "tests/surfaces/http/test_http_calls.py::test_a_call",
            "tests/surfaces/http/test_http_calls.py::test_a_failure_is_the_tools_to_tell",
            "tests/surfaces/http/test_http_calls.py::test_what_cannot_be_called",
            "tests/surfaces/http/test_http_calls.py::test_a_tool_is_not_called_by_looking",
            "tests/surfaces/http/test_http.py::test_a_path_that_is_not_there",
            "tests/surfaces/http/test_http.py::test_a_method_that_is_not_answered",
            "tests/surfaces/http/test_http.py::test_a_foreign_host_is_refused",
            "tests/surfaces/http/test_http.py::test_this_machine_is_not_refused",
            "tests/surfaces/http/test_http.py::test_listens_on_this_machine_only",
        ),
        open="an OpenAPI description is to come",
    ),
    "mcp:search_tools": Requirement(
        "The MCP tool search_tools.",
        proved_by=(
            "tests/surfaces/mcp/test_mcp.py::test_search_tools_answers_as_the_seed_has_it",
            "tests/surfaces/mcp/test_mcp.py::test_what_was_found_is_described_and_called",
            "tests/surfaces/mcp/test_mcp.py::test_the_seeds_own_request",
            "tests/surfaces/mcp/test_mcp.py::test_messages",
        ),
    ),
    "mcp:tool_search": Requirement(
        "The MCP tool tool_search, in two phases.",
        proved_by=(
            "tests/surfaces/mcp/test_mcp.py::test_two_phases",
            "tests/surfaces/mcp/test_mcp.py::test_a_client_that_ignores_changes_can_call_at_once",
            "tests/surfaces/mcp/test_mcp.py::test_two_phases_over_standard_input_and_output",
        ),
    ),
    "mcp:transports": Requirement(
        "Streamable HTTP and stdio, for any MCP client.",
        proved_by=(
            "tests/surfaces/mcp/test_mcp.py::test_models_see_the_search_and_what_is_pinned",
            "tests/surfaces/mcp/test_mcp.py::test_a_change_of_an_upstream_is_told",
            "tests/surfaces/mcp/test_mcp.py::test_over_standard_input_and_output",
        ),
    ),
    "agent:two-phase": Requirement(
        "The executor over a chat endpoint.",
        proved_by=(
            "tests/test_agent.py::test_the_flow_of_the_seed",
            "tests/test_agent.py::test_what_two_phases_save_is_counted",
            "tests/test_agent.py::test_there_is_an_end_to_calls",
            "tests/test_agent.py::test_a_model_that_never_stops_is_stopped",
            "tests/surfaces/cli/test_cli_ask.py::test_a_question",
            "tests/surfaces/cli/test_cli_ask.py::test_as_json_with_settings_from_the_environment",
        ),
    ),
    "types:typescript": Requirement(
        "A TypeScript module for any set of tools.",
        open="typed clients are to come",
    ),
    "types:python": Requirement(
        "The same in Python.",
        open="typed clients are to come",
    ),
    "graph:methods": Requirement(
        "Edges, neighbours, Adamic-Adar, relatedness, templates.",
        open="the graph is to come",
    ),
    "graph:alpha": Requirement(
        "The weight follows the number of edges.",
        open="the graph is to come",
    ),
    "graph:context": Requirement(
        "Without context the graph is silent.",
        open="the graph is to come",
    ),
    "graph:learning": Requirement(
        "Executions teach the graph, and never hurt.",
        open="the graph is to come",
    ),
    "skills:update": Requirement(
        "Vector.VectorUpdate.",
        open="skills are to come",
    ),
    "skills:search": Requirement(
        "Vector.SearchSkills.",
        open="skills are to come",
    ),
    "skills:folders": Requirement(
        "Agent Skills found, watched and searched.",
        open="skills are to come",
    ),
}
