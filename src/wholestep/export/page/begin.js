// The last words of the page: the worker begins.
tell("create", program);
