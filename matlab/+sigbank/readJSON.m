function [value, text] = readJSON(path)
  % readJSON  A JSON document as a struct, and its text; sigbank:corrupt names the file where it is none.
  fid = fopen(path, 'r', 'n', 'UTF-8');
  if fid < 0
    error('sigbank:notFound', '%s: there is no such file', path);
  end
  closer = onCleanup(@() fclose(fid));
  text = fread(fid, [1, Inf], '*char');
  try
    value = jsondecode(text);
  catch e
    error('sigbank:corrupt', '%s: this is no JSON document: %s', path, e.message);
  end
  if isempty(value) && ~isstruct(value)
    value = struct();
  end
end
