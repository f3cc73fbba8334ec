"""What a tool may do, guessed from its name and its parameters."""

from typing import Any

import pytest

from toolscript.text.tool_class_guess import guess_class

READ = """
sqlite:list_tables sqlite:sqlite_list_tables git:git_status git:git_diff_unstaged git:git_show
notion:notion-search notion:API-get-user notion:API-retrieve-a-page github:search_code
calculator:calculate time:get_current_time time:convert_time files:readFile files:read_text_file
files:listAllowedDirectories fetch:fetch ddg:search crm:ghl_get_rates k8s:describe_pod
shop:count_orders shop:view-cart api:v2_get_user pubmed:find_similar_articles
x:get_pull_request x:getHTTPHeaders x:analyze_report x:translate_text x:estimate_cost
x:get_deleted_items x:list_runs x:get_workflow_run x:list_updates x:search_posts x:version
my-shop:my_shop_list_items My-Server:MyServer_search x:get_comment x:get_users_and_get_groups
""".split()  # noqa: SIM905

WRITE = """
x:create_issue x:add_comment x:insert_row x:appendBlock x:send_message x:reply x:comment_on_issue
x:get_or_create x:find-or-create-user x:list_add x:search_and_comment x:generate_image x:add
mail:mail_send_draft x:create_event_and_invite
""".split()  # noqa: SIM905

DESTRUCTIVE = """
x:delete_note x:drop_table x:reset x:execute_query x:run_query x:shell x:eval x:kill_process x:exec
x:get_and_delete x:find_and_delete x:search_replace x:searchReplace x:find_or_delete x:list_remove
x:read_write_file x:query_stop x:list_pop x:get_then_zap x:get_or_zap x:fetch_and_zap x:zap_and_get
x:List,_create,_and_overwrite x:getDeleteUser x:create_and_purge x:copy_or_move x:get_set
x:frobnicate x:frobnicate_list x:nuke_search x:toggle_search x:web x:status_page x:info_desk
x:update_issue x:edit_file x:move_file x:write_file x:set_value x:rename x:upsert_row x:restore
x:getuserdelete x:getdeleteuser x:deletelist x:re-list x:run_list x:schedule_query x:__ x:123
x:send_payment x:create_transaction x:submit_order x:удалить x:削除_list x:listing
x:search2 other:sqlite_list_tables x:approve_search_request x:prune_and_list x:revoke.get
x:convert-draft-and-publish
""".split()  # noqa: SIM905


def guess(case: str, *parameters: str) -> str:
    server, _, name = case.partition(":")
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in parameters}}
    return guess_class(server, name, schema)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        *((case, "read") for case in READ),
        *((case, "write") for case in WRITE),
        *((case, "destructive") for case in DESTRUCTIVE),
    ],
)
def test_a_name_is_read_by_its_first_verb_and_any_that_destroys(case: str, expected: str) -> None:
    assert guess(case) == expected


@pytest.mark.parametrize(
    "parameter",
    [
        *("command", "cmd", "sql", "sql_query", "shellCommand", "script", "statement", "code"),
        *("jsCode", "python_code", "javascript", "cypher", "bash_script"),
    ],
)
@pytest.mark.parametrize("name", ["get_result", "create_view", "send_it"])
def test_whatever_takes_a_program_may_destroy(name: str, parameter: str) -> None:
    assert guess(f"x:{name}", "limit", parameter) == "destructive"


@pytest.mark.parametrize(
    ("case", "parameter", "expected"),
    [
        ("x:search", "query", "read"),
        ("x:read_query", "query", "read"),
        ("x:query", "query", "destructive"),
        ("x:query_metrics", "metric", "read"),
        ("x:get_country", "country_code", "read"),
        ("x:calculate", "expression", "read"),
        ("x:get_paper", "save_path", "write"),
        ("x:convert_video", "outputFile", "write"),
        ("x:get_network_request", "responseFilePath", "write"),
        ("x:read_file", "path", "read"),
        ("x:grep_view", "output_mode", "destructive"),
        ("x:view_matches", "output_mode", "read"),
    ],
)
def test_parameters_count(case: str, parameter: str, expected: str) -> None:
    assert guess(case, parameter) == expected


@pytest.mark.parametrize("properties", [None, [], "sql", 1, {}, {1: {}}, {"a": None}])
def test_any_schema_can_be_read(properties: Any) -> None:
    assert guess_class("x", "get_it", {"properties": properties}) == "read"
    assert guess_class("x", "get_it", {}) == "read"
