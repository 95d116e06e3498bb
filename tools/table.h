/*
 * Rows for people (text, md) and for programs (csv, json, jsonl). A row is a
 * record of named values, which programs get, and the cells people see.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#define TOOL_FORMATS "md|csv|json|jsonl"

/* A JSON object being made; the first lack of memory sticks. */
typedef struct tool_record {
    cJSON *json;
    bool failed;
} tool_record;

tool_record tool_record_begin(void);
void tool_record_number(tool_record *record, const char *key, double value);
/* Bytes that are not printable UTF-8 become '?'. */
void tool_record_string(tool_record *record, const char *key,
                        const char *value);
void tool_record_bool(tool_record *record, const char *key, bool value);
void tool_record_numbers(tool_record *record, const char *key,
                         const double *values, uint32_t n);
/* Takes the records. */
void tool_record_list(tool_record *record, const char *key,
                      const tool_record *items, uint32_t n);

typedef struct tool_column {
    const char *title;
    bool right; /* numbers */
} tool_column;

#define TOOL_COLUMNS_MAX 16

typedef struct tool_table {
    const char *format;
    const tool_column *columns;
    uint32_t n_columns;
    cJSON *records; /* array; owns the rows' records */
    char **cells;   /* [n_rows, n_columns], each its own */
    uint32_t n_rows;
    bool failed;
} tool_table;

/* format: one of TOOL_FORMATS, or another, which prints nothing. The columns
 * are those of md, at most TOOL_COLUMNS_MAX; those without a text in any row
 * are left out. */
void tool_table_begin(tool_table *table, const char *format,
                      const tool_column *columns, uint32_t n_columns);
/* Takes the record. cells: a text for each column. jsonl rows are printed now,
 * others at the end. */
void tool_table_add(tool_table *table, tool_record record,
                    const char *const *cells);
/* Prints what is left to print on stdout and frees the table; false, after a
 * message, if memory or stdout failed. */
bool tool_table_end(tool_table *table);

/* Prints one record alone as json and frees it. */
bool tool_record_print(tool_record record);
