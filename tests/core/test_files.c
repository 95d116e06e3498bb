#include "test.h"

#include "../../core/base/file_pages.h"
#include "../../core/base/sanitizer.h"

#include "message.h"
#include "tmpdir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

static tmpdir dir;

static int setup(void **state)
{
    (void)state;
    return tmpdir_make(&dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

static void assert_content(const char *path, const void *data, size_t size)
{
    clv_file_map map;
    assert_ok(clv_file_map_open(path, &map));
    assert_int_equal(map.size, size);
    if (size)
        assert_memory_equal(map.data, data, size);
    clv_file_map_close(&map);
    assert_null(map.data);
}

static void test_map(void **state)
{
    (void)state;
    clv_file_map map;
    assert_content(tmpdir_text(&dir, "a", "hello"), "hello", 5);
    assert_ok(clv_file_map_open(tmpdir_text(&dir, "empty", ""), &map));
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    clv_file_map_close(&map);
    assert_int_equal(clv_file_map_open(tmpdir_file(&dir, "none"), &map),
                     CLV_ERR_NOT_FOUND);
    assert_message("none|No such file");
    assert_int_equal(clv_file_map_open(dir.path, &map), CLV_ERR_IO);
    assert_message("a directory");
    assert_int_equal(clv_file_map_open("/dev/null", &map), CLV_ERR_IO);
    assert_null(map.data);
}

/* Kilobytes of this process that are locked. */
static unsigned long locked(void)
{
    char line[128];
    unsigned long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !kib && fgets(line, sizeof line, file))
        if (sscanf(line, "VmLck: %lu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib;
}

static void test_copy(void **state)
{
    (void)state;
    enum { SIZE = 20 << 20 };
    clv_file_map map;
    char *text = malloc(SIZE + 1);
    assert_non_null(text);
    memset(text, 'x', SIZE);
    text[SIZE] = 0;
    const char *path = tmpdir_text(&dir, "copied", text);
    assert_ok(clv_file_map_open(path, &map));
    const uint8_t *at = map.data;
    assert_ok(clv_file_map_copy(&map, path));
    assert_ptr_equal(map.data, at);
    assert_int_equal(truncate(path, 4), 0);
    assert_memory_equal(map.data, text, SIZE);
    assert_ok(clv_file_map_check(&map, path));
    assert_ok(clv_file_map_copy(&map, path));
    clv_file_map_close(&map);
    assert_ok(clv_file_map_open(path, &map));
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(clv_file_map_copy(&map, path), CLV_ERR_IO);
    assert_message("shrank from 4 to 0");
    clv_file_map_close(&map);
    assert_ok(clv_file_map_open(path, &map));
    assert_ok(clv_file_map_copy(&map, path)); /* empty */
    clv_file_map_close(&map);
    free(text);
}

static void test_lock(void **state)
{
    (void)state;
    clv_file_map map;
    struct rlimit before;
    const char *path = tmpdir_text(&dir, "locked", "text");
    if (core_sanitizers())
        skip(); /* they make mlock() do nothing */
    assert_ok(clv_file_map_open(path, &map));
    assert_int_equal(locked(), 0);
    assert_ok(clv_file_map_lock(&map, path));
    assert_true(locked() > 0);
    clv_file_map_close(&map);
    assert_int_equal(locked(), 0);
    if (geteuid() == 0)
        return; /* has no limit */
    assert_ok(clv_file_map_open(path, &map));
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    assert_int_equal(
        setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, before.rlim_max}), 0);
    assert_int_equal(clv_file_map_lock(&map, path), CLV_ERR_LIMIT);
    assert_message("ulimit -l");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    clv_file_map_close(&map);
}

enum { N_PAGES = 300 };

static uint32_t count_resident(const clv_file_map *map)
{
    unsigned char there[N_PAGES];
    uint32_t n = 0;
    assert_int_equal(mincore((void *)(uintptr_t)map->data, map->size, there),
                     0);
    for (uint32_t i = 0; i < N_PAGES; i++)
        n += there[i] & 1;
    return n;
}

/* On the disk, so that its pages need not stay in memory. */
static const char *written_through(const char *name, size_t size, char *bytes)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(i / 7);
    const char *path = tmpdir_write(&dir, name, bytes, size);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fsync(fd), 0);
    close(fd);
    return path;
}

/* Pages that others have a part of stay. */
static void test_pages(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = N_PAGES * page;
    const struct timespec pause = {.tv_nsec = 1000000};
    struct statfs fs;
    clv_file_map map;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    const char *path = written_through("pages", size, bytes);
    assert_int_equal(statfs(path, &fs), 0);
    assert_ok(clv_file_map_open(path, &map));
    assert_memory_equal(map.data, bytes, size);
    assert_int_equal(count_resident(&map), N_PAGES);
    core_file_give_up(map.data, size);
    if (fs.f_type != TMPFS_MAGIC) /* which has no disk */
        assert_int_equal(count_resident(&map), 0);
    core_file_ask(map.data, size);
    for (int i = 0; i < 10000 && count_resident(&map) < N_PAGES; i++)
        nanosleep(&pause, NULL);
    assert_int_equal(count_resident(&map), N_PAGES);
    core_file_give_up(map.data + 1, size - 2);
    assert_true(count_resident(&map) >= 2);
    uint64_t measured = 2 * size;
    assert_true(core_file_speed(map.data + 1, &measured) > 0);
    assert_int_equal(measured, size - 1);
    assert_memory_equal(map.data, bytes, size);
    clv_file_map_close(&map);
    free(bytes);
}

/* What is no file's, a copy for one, keeps its contents. */
static void test_pages_of_copies(void **state)
{
    (void)state;
    const size_t size = 8 * (size_t)sysconf(_SC_PAGESIZE);
    clv_file_map map;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    const char *path = written_through("pages", size, bytes);
    assert_ok(clv_file_map_open(path, &map));
    assert_ok(clv_file_map_copy(&map, path));
    core_file_give_up(map.data, size);
    core_file_ask(map.data, size);
    assert_true(core_file_speed(map.data, &(uint64_t){size}) == 0);
    assert_memory_equal(map.data, bytes, size);
    clv_file_map_close(&map);
    free(bytes);
}

/* Parts of a file of which some lie at the same place of pages and some do not,
 * beside one another, and a memory that is no file's. */
static void test_reorder(void **state)
{
    (void)state;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    static const uint32_t order[] = {3, 0, 4, 1, 2};
    const uint64_t sizes[] = {3 * page, page + 8, 100, page / 2, 2 * page};
    const size_t size = N_PAGES * page;
    char *bytes = malloc(size), *want = malloc(size);
    assert_non_null(bytes);
    assert_non_null(want);
    const char *path = written_through("parts", size, bytes);
    memcpy(want, bytes, size);
    clv_file_map map;
    assert_ok(clv_file_map_open(path, &map));
    char *data = (char *)(uintptr_t)map.data;
    uint64_t at = 72;
    for (uint32_t s = 0; s < 5; at += 5 * sizes[s++]) {
        for (uint32_t i = 0; i < 5; i++)
            memcpy(want + at + i * sizes[s], bytes + at + order[i] * sizes[s],
                   sizes[s]);
        assert_ok(clv_file_reorder(data + at, sizes[s], 5, order));
        assert_memory_equal(data, want, size);
    }
    core_file_give_up(data, size);
    assert_memory_equal(data, want, size);
    /* The last parts end with the file. */
    at = size - 5 * sizes[0];
    for (uint32_t i = 0; i < 5; i++)
        memcpy(want + at + i * sizes[0], bytes + at + order[i] * sizes[0],
               sizes[0]);
    assert_ok(clv_file_reorder(data + at, sizes[0], 5, order));
    assert_memory_equal(data, want, size);
    assert_int_equal(clv_file_reorder(data + at, sizes[0] + 1, 5, order),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_file_reorder(data, 8, 2, (const uint32_t[]){0, 2}),
                     CLV_ERR_INVALID);
    assert_int_equal(clv_file_reorder(data, 8, 2, (const uint32_t[]){1, 1}),
                     CLV_ERR_INVALID);
    assert_message("names one");
    assert_ok(clv_file_map_copy(&map, path));
    assert_memory_equal(map.data, want, size);
    clv_file_map_close(&map);
    char letters[] = "aabbccddee";
    assert_ok(clv_file_reorder(letters, 2, 5, order));
    assert_string_equal(letters, "ddaaeebbcc");
    free(bytes);
    free(want);
}

static void test_write(void **state)
{
    (void)state;
    size_t size = 3u << 20;
    uint8_t *data = malloc(size);
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 7 + i / 251);
    const char *path = tmpdir_file(&dir, "out");
    clv_file_writer *w;
    assert_ok(clv_file_writer_open(path, &w));
    size_t done = 0;
    for (size_t n = 1; done < size; n = n * 3 + 1) {
        size_t piece = n < size - done ? n : size - done;
        assert_ok(clv_file_writer_write(w, data + done, piece));
        done += piece;
    }
    assert_ok(clv_file_writer_write(w, NULL, 0));
    assert_int_not_equal(access(path, F_OK), 0); /* not before commit */
    assert_ok(clv_file_writer_commit(w));
    assert_content(path, data, size);
    assert_int_equal(tmpdir_count(dir.path), 1);
    free(data);
}

static void write_text(const char *path, const char *text)
{
    clv_file_writer *w;
    assert_ok(clv_file_writer_open(path, &w));
    assert_ok(clv_file_writer_write(w, text, strlen(text)));
    assert_ok(clv_file_writer_commit(w));
}

static void test_replace(void **state)
{
    (void)state;
    struct stat st;
    const char *path = tmpdir_text(&dir, "out", "old");
    chmod(path, 0600);
    clv_file_writer *w;
    assert_ok(clv_file_writer_open(path, &w));
    assert_ok(clv_file_writer_write(w, "new", 3));
    assert_content(path, "old", 3);
    clv_file_writer_discard(w);
    assert_content(path, "old", 3);
    assert_int_equal(tmpdir_count(dir.path), 1);
    write_text(path, "newer");
    assert_content(path, "newer", 5);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    clv_file_writer_discard(NULL);
}

/* The next write removes what killed processes left, and only that. */
static void test_stale(void **state)
{
    (void)state;
    const char *path = tmpdir_file(&dir, "out");
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        clv_file_writer *w;
        if (!clv_file_writer_open(path, &w))
            raise(SIGKILL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(tmpdir_count(dir.path), 1);
    tmpdir_text(&dir, ".notes.cleave-1-2.txt", "");
    tmpdir_text(&dir, "a.cleave-1-2", "");
    clv_file_writer *w;
    assert_ok(clv_file_writer_open(tmpdir_file(&dir, "other"), &w));
    assert_int_equal(tmpdir_count(dir.path), 3);
    write_text(path, "new");
    assert_int_equal(tmpdir_count(dir.path), 4);
    assert_ok(clv_file_writer_commit(w));
    assert_int_equal(tmpdir_count(dir.path), 4);
}

static void test_through_link(void **state)
{
    (void)state;
    struct stat st;
    const char *path = tmpdir_text(&dir, "real", "old");
    const char *link = tmpdir_file(&dir, "link");
    assert_int_equal(symlink("real", link), 0);
    write_text(link, "new");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_content(path, "new", 3);
}

static void test_bad_targets(void **state)
{
    (void)state;
    clv_file_writer *w;
    assert_int_equal(clv_file_writer_open(dir.path, &w), CLV_ERR_INVALID);
    assert_null(w);
    assert_message("directory");
    assert_int_equal(clv_file_writer_open(tmpdir_file(&dir, "no/such/out"), &w),
                     CLV_ERR_NOT_FOUND);
    assert_message("no/such/out");
}

/* Devices are written in place, never replaced. */
static void test_devices(void **state)
{
    (void)state;
    struct stat st;
    write_text("/dev/null", "gone");
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
    if (access("/dev/full", W_OK))
        skip();
    clv_file_writer *w;
    assert_ok(clv_file_writer_open("/dev/full", &w));
    assert_ok(clv_file_writer_write(w, "x", 1));
    assert_int_equal(clv_file_writer_commit(w), CLV_ERR_IO);
    assert_message("/dev/full|No space left|after 0 bytes|free some space");
}

/* Writes until it fails, then ends the writer with commit or discard; nothing
 * stays behind. */
static void write_until_full(const char *where, bool commit, const char *parts)
{
    static uint8_t block[100000];
    char path[512];
    snprintf(path, sizeof path, "%s/big", where);
    clv_file_writer *w;
    assert_ok(clv_file_writer_open(path, &w));
    clv_status st = CLV_OK;
    for (int i = 0; i < 100 && st == CLV_OK; i++)
        st = clv_file_writer_write(w, block, sizeof block);
    assert_int_equal(st, CLV_ERR_IO);
    assert_message(parts);
    assert_int_equal(clv_file_writer_write(w, block, 1), CLV_ERR_IO);
    if (commit)
        assert_int_equal(clv_file_writer_commit(w), CLV_ERR_IO);
    else
        clv_file_writer_discard(w);
    assert_int_equal(tmpdir_count(where), 0);
}

static void test_size_limit(void **state)
{
    (void)state;
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    small = old;
    small.rlim_cur = 1000000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    write_until_full(dir.path, true, "big|File too large|after 1000000 bytes");
    write_until_full(dir.path, false, "big|File too large");
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_DFL);
}

static void test_full_disk(void **state)
{
    (void)state;
    const char *mnt = tmpdir_file(&dir, "mnt");
    mkdir(mnt, 0700);
    if (mount("tmpfs", mnt, "tmpfs", 0, "size=1m"))
        skip();
    write_until_full(mnt, true, "big|No space left|free some space");
    assert_int_equal(umount(mnt), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_map, setup, teardown),
        cmocka_unit_test_setup_teardown(test_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages_of_copies, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reorder, setup, teardown),
        cmocka_unit_test_setup_teardown(test_write, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replace, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale, setup, teardown),
        cmocka_unit_test_setup_teardown(test_through_link, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_targets, setup, teardown),
        cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
        cmocka_unit_test_setup_teardown(test_size_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
