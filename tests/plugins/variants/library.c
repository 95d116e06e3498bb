/* A library that runs code when it is loaded, as some that compute do. */
__attribute__((visibility("default"))) int needed_started;

__attribute__((constructor)) static void start_one(void)
{
    needed_started++;
}

__attribute__((constructor)) static void start_other(void)
{
    needed_started++;
}
