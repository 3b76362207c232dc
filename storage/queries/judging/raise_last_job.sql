-- Take as many numbers for jobs as were used.
UPDATE matching_state SET last_job = last_job + $jobs;
